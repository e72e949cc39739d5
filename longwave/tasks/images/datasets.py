"""MNIST and CIFAR-10."""

from longwave.io.download.catalogue import DATASETS, Dataset, File, Source


def _mnist() -> Dataset:
    hosts = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
    compressed = {  # bytes and sha256 of each .gz file
        "train-images-idx3": (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        "train-labels-idx1": (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        "t10k-images-idx3": (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        "t10k-labels-idx1": (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    }
    contents = {  # bytes and sha256 of the IDX file in it: copies that were compressed again are as good
        "train-images-idx3": (47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        "train-labels-idx1": (60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        "t10k-images-idx3": (7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        "t10k-labels-idx1": (10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    }
    return Dataset(
        "MNIST: 70,000 handwritten digits",
        "CC BY-SA 3.0",
        "mnist",
        tuple(
            Source(tuple(f"{host}/{name}-ubyte.gz" for host in hosts), f"mnist/{name}-ubyte.gz", size, sha)
            for name, (size, sha) in compressed.items()
        ),
        tuple(
            File(f"mnist/{name}-ubyte.gz", size, f"sha256:{sha}", gzipped=True)
            for name, (size, sha) in contents.items()
        ),
    )


def _cifar10() -> Dataset:
    folder = "cifar-10-batches-bin"
    batches = {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    }
    source = Source(
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        folder,
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        archive="cifar-10-binary.tar.gz",
        inside=folder,
        limit=400_000_000,
    )
    checks = tuple(File(f"{folder}/{name}", 30_730_000, f"sha256:{sha}") for name, sha in batches.items())
    return Dataset("CIFAR-10: 60,000 colour images, binary version", "none stated", folder, (source,), checks)


DATASETS.register("mnist")(_mnist())
DATASETS.register("cifar10")(_cifar10())
