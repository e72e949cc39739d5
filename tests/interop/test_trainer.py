"""A SequenceModel in transformers' Trainer: it trains, evaluates and resumes, and its checkpoints are models."""

import pytest
import torch

from longwave import S4Config, SequenceModel, load_model, param_groups

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("own_folder")


def make(**settings):
    torch.manual_seed(0)
    sizes = {"d_model": 8, "n_layers": 1, "input_size": 2, "output_size": 3, "mixer": S4Config(d_state=4)}
    return SequenceModel(**sizes | settings)


def rows(count=12):
    draws = torch.Generator().manual_seed(1)
    return [{"x": torch.randn(16, 2, generator=draws), "labels": k % 3} for k in range(count)]


def trainer(model, data, steps=2, **settings):
    arguments = transformers.TrainingArguments(
        "out",
        max_steps=steps,
        per_device_train_batch_size=4,
        save_steps=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **settings,
    )
    optimizer = torch.optim.AdamW(param_groups(model, lr=0.01))
    data = {"train_dataset": data, "eval_dataset": data}
    return transformers.Trainer(model, arguments, **data, optimizers=(optimizer, None), processing_class=model.config)


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_it_trains_evaluates_saves_and_reloads():
    model, data = make(), rows()
    run = trainer(model, data)
    assert run.train().global_step == 2
    assert not equal(model, make())
    found = run.predict(data)
    x, labels = torch.stack([row["x"] for row in data]), torch.tensor([row["labels"] for row in data])
    model.eval()
    with torch.no_grad():
        logits, _ = model(x)
    torch.testing.assert_close(torch.from_numpy(found.predictions), logits)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    assert run.evaluate()["eval_loss"] == pytest.approx(float(loss), rel=1e-5)
    run.save_model("final")
    for folder in ("out/checkpoint-2", "final"):
        again = SequenceModel.from_pretrained(folder)
        assert again.config == model.config
        assert equal(again, model)


def test_a_step_is_that_of_a_plain_loop():
    data = rows(4)
    model, plain = make(), make()
    trainer(model, data, 1, lr_scheduler_type="constant", max_grad_norm=0.0).train()
    optimizer = torch.optim.AdamW(param_groups(plain, lr=0.01))
    x, labels = torch.stack([row["x"] for row in data]), torch.tensor([row["labels"] for row in data])
    plain(x, labels=labels)[0].backward()
    optimizer.step()
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(
            a, b, rtol=1e-3, atol=1e-5
        )  # a step of Adam is as large as lr, whatever the rounding


def test_a_run_resumes_from_its_checkpoint_to_the_same_weights():
    whole = make()
    trainer(whole, rows(), 4).train()
    resumed = make()
    trainer(resumed, rows(), 4).train(resume_from_checkpoint="out/checkpoint-2")
    assert equal(whole, resumed)


def test_the_best_checkpoint_is_loaded_at_the_end():
    model = make()
    settings = {"eval_strategy": "steps", "eval_steps": 2, "load_best_model_at_end": True}
    run = trainer(model, rows(), 4, **settings)
    run.train()
    assert equal(load_model(run.state.best_model_checkpoint), model)


def test_tokens_train_with_labels_of_each_step_and_gradient_checkpointing():
    model = make(vocabulary=5, output_size=5, decoder="sequence", gradient_checkpointing=True)
    tokens = torch.randint(5, (12, 10))
    data = [{"x": row[:-1], "labels": row[1:]} for row in tokens]
    run = trainer(model, data)
    before = run.evaluate()["eval_loss"]
    run.train()
    assert run.evaluate()["eval_loss"] < before


def test_numbers_train_with_the_mean_squared_error():
    model = make(output_size=1)
    data = [{"x": row["x"], "labels": float(row["x"].mean())} for row in rows()]
    run = trainer(model, data)
    before = run.evaluate()["eval_loss"]
    run.train()
    assert run.evaluate()["eval_loss"] < before
