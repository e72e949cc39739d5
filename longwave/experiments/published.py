"""The paper's scores of experiments that share their task with others, for comparison in reports."""

from longwave.tasks.base import Scores


def _accuracy(per_cent: float) -> Scores:
    return {"accuracy": round(per_cent / 100, 4)}


# tab:lra-full has the original Long Range Arena, sec:reproduction the first language model.
SCORES: dict[str, Scores] = {
    "lra-listops-original": _accuracy(58.35),
    "lra-text-original": _accuracy(76.02),
    "lra-retrieval-original": _accuracy(87.09),
    "lra-image-original": _accuracy(87.26),
    "lra-pathfinder-original": _accuracy(86.05),
    "lra-pathx-original": _accuracy(88.10),
    "cifar-density": {"bits_per_dim": 2.92},
    "wikitext103-original": {"perplexity": 21.28},
}
