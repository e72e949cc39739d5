"""Which audio files there are, and what they are of."""

import pytest
from audio_files import KINDS, sound, write, write_clips, write_fsdd, write_speech_commands

from longwave.tasks.audio.clip_lists import from_csv, from_folder, speech_commands, spoken_digits


def test_a_sub_folder_is_a_class_and_files_are_in_order(tmp_path):
    write_clips(tmp_path, 9)
    write(tmp_path / "noise" / "deeper" / "1.FLAC", sound("noise", 50))
    (tmp_path / "noise" / ".hidden.wav").write_text("")
    (tmp_path / "noise" / "notes.txt").write_text("")
    found = from_folder(tmp_path)
    assert found.names == tuple(sorted(found.names))
    assert len(found) == 10
    assert set(found.labels) == set(KINDS)
    assert ("noise/deeper/1.FLAC", "noise") in zip(found.names, found.labels, strict=True)
    assert found.notes == ("files skipped because they do not end in .wav, .flac, .ogg, .oga: noise/notes.txt",)
    assert from_folder(tmp_path, labelled=False).labels == ()


def test_folders_called_train_and_test_are_splits(tmp_path):
    for name in ("train", "val", "test"):
        write_clips(tmp_path / name, 6)
    found = from_folder(tmp_path)
    assert set(found.labels) == set(KINDS)
    assert found.splits == ("test",) * 6 + ("train",) * 6 + ("valid",) * 6


def test_a_file_in_no_class_is_refused_and_so_is_a_missing_folder(tmp_path):
    write(tmp_path / "a" / "1.wav", sound("noise", 50))
    write(tmp_path / "2.wav", sound("noise", 50))
    with pytest.raises(ValueError, match=r"expected each file in a subfolder .*, but 2.wav is in none"):
        from_folder(tmp_path)
    assert from_folder(tmp_path, labelled=False).names == ("2.wav", "a/1.wav")
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder"):
        from_folder(tmp_path / "nowhere")


def test_a_csv_file_names_files_labels_and_splits(tmp_path):
    (tmp_path / "list.csv").write_text("label,file,part\nup,a.wav,train\n3.0,b/c.wav,val\n")
    found = from_csv(tmp_path / "list.csv", split="part")
    assert found.paths == (tmp_path / "a.wav", tmp_path / "b/c.wav")
    assert (found.names, found.labels, found.splits) == (("a.wav", "b/c.wav"), ("up", "3"), ("train", "valid"))
    new = from_csv(tmp_path / "list.csv", labelled=False)
    assert (new.labels, new.splits, len(new)) == ((), None, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\na.wav,x\n", "no column 'file'; expected one of path, label"),
        ("file,kind\na.wav,x\n", "no column 'label'"),
        ("file,label\na.wav,x\n,y\n", "line 3, column 'file': expected a file name, got nothing"),
        ("file,label\na.wav\n", "line 2: expected 2 cells as in the header, got 1"),
        ("file,label\na.wav,\n", "line 2, column 'label': the label is missing"),
        ("file,label\na.wav,x\nb.wav,x\na.wav,y\n", "expected each file once, got a.wav 2 times"),
    ],
)
def test_a_csv_file_that_cannot_be_right_is_refused(tmp_path, text, message):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        from_csv(tmp_path / "list.csv")


def test_spoken_digits_are_read_from_their_names(tmp_path):
    found = spoken_digits(write_fsdd(tmp_path), valid_takes=1)
    assert (len(found), found.names[0], found.labels[0]) == (140, "0_ann_0.wav", "0")
    splits = dict(zip(found.names, found.splits, strict=True))
    assert [splits[f"7_bob_{take}.wav"] for take in range(7)] == [*["test"] * 5, "valid", "train"]
    write(tmp_path / "free-spoken-digit-dataset/recordings/seven.wav", sound("noise", 50))
    with pytest.raises(ValueError, match=r"seven.wav: expected a name such as 7_jackson_32.wav"):
        spoken_digits(tmp_path / "free-spoken-digit-dataset")


def test_words_have_speakers_and_the_splits_of_the_official_lists(tmp_path):
    folder = write_speech_commands(tmp_path, ("yes", "go"), speakers=3)
    found, speakers = speech_commands(folder, ("yes", "no", "go"))
    assert found.labels == ("yes",) * 3 + ("go",) * 3
    assert speakers == ("00000000", "00000001", "00000002") * 2
    assert found.splits is None
    (folder / "validation_list.txt").write_text("yes/00000001_nohash_0.wav\n")
    (folder / "testing_list.txt").write_text("go/00000002_nohash_0.wav\nbed/00000002_nohash_0.wav\n")
    found, _ = speech_commands(folder, ("yes", "go"))
    assert found.splits == ("train", "valid", "train", "train", "train", "test")
    (folder / "go" / "other.wav").write_bytes(b"")
    with pytest.raises(ValueError, match=r"other.wav: expected a name such as 0a7c2a8d_nohash_0.wav"):
        speech_commands(folder, ("go",))
