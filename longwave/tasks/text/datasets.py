"""WikiText, and the film reviews of IMDB."""

from longwave.io.download.catalogue import DATASETS, Dataset, File, Folder, Source


def _wikitext(
    name: str, size: int, sha256: str, limit: int, parts: tuple[tuple[str, int | None, str | None], ...]
) -> Dataset:
    urls = tuple(
        f"{host}/{name}-v1.zip"
        for host in ("https://wikitext.smerity.com", "https://s3.amazonaws.com/research.metamind.io/wikitext")
    )
    source = Source(urls, name, size, sha256, f"{name}-v1.zip", inside=name, limit=limit)
    checks = tuple(File(f"{name}/wiki.{part}.tokens", size, digest) for part, size, digest in parts)
    title = name.replace("wikitext", "WikiText") + ": Wikipedia articles, words"
    return Dataset(title, "CC BY-SA", name, (source,), checks)


def _imdb() -> Dataset:
    source = Source(
        ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
        "aclImdb",
        84_125_825,
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        archive="aclImdb_v1.tar.gz",
        inside="aclImdb",
        limit=1_000_000_000,
    )
    parts = (f"aclImdb/{split}/{label}" for split in ("train", "test") for label in ("neg", "pos"))
    checks = tuple(Folder(part, "*_*.txt", 12_500) for part in parts)
    return Dataset("IMDB: 50,000 labelled film reviews", "none stated", "aclImdb", (source,), checks)


DATASETS.register("wikitext2")(
    _wikitext(
        "wikitext-2",
        4_475_746,
        "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
        50_000_000,
        (
            ("train", 10_797_148, None),  # by size: copies circulate that hold its articles in another order
            ("valid", 1_121_681, "sha256:f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"),
            ("test", 1_256_449, "sha256:d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"),
        ),
    )
)
DATASETS.register("wikitext103")(
    _wikitext(
        "wikitext-103",
        190_229_076,
        "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
        1_000_000_000,
        (
            ("train", None, "sha1:b7497e2dfe77e72cfef5e3dbc61b7b53712ac211"),
            ("valid", None, "sha1:c326ac59dc587676d58c422eb8a03e119582f92b"),
            ("test", None, "sha1:8a5befc548865cec54ed4273cf87dbbad60d1e47"),
        ),
    )
)
DATASETS.register("imdb")(_imdb())
