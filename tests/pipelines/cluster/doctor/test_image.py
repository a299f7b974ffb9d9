"""Images: their names, where they are, and the secrets to pull them."""

import pytest

from pipelines.cluster.doctor.image import architectures, images, pull_secrets
from pipelines.cluster.doctor.node import full_name
from tests.pipelines.cluster.doctor.fakes import OWN, TEMPLATE, FakeReader, healthy, look, only, texts


def with_image(image: str, policy: str = "IfNotPresent") -> FakeReader:
    reader = healthy()
    for template in reader.objects[TEMPLATE]["spec"]["templates"]:
        if "container" in template:
            template["container"] |= {"image": image, "imagePullPolicy": policy}
    return reader


def test_an_image_on_every_node_is_ok() -> None:
    assert "image alpha-rl:main is on all 2 nodes" in only(look(images, healthy()), "ok")


def test_the_tag_is_the_branch_that_was_asked_for() -> None:
    text = only(look(images, healthy(), parameters={"git-branch": "feature-x"}), "warning")
    assert "image alpha-rl:feature-x is not on cpu-1, gpu-1: it must be pulled" in text
    assert "as docker.io/library/alpha-rl:feature-x" in text


def test_an_image_on_some_nodes_names_those_without() -> None:
    reader = healthy()
    reader.objects["/api/v1/nodes/gpu-1"]["status"]["images"] = []
    assert "is not on gpu-1:" in only(look(images, reader), "warning")


def test_an_image_that_may_not_be_pulled_is_an_error_where_it_lacks() -> None:
    reader = with_image("localhost/other:1", "Never")
    assert "may not be pulled (Never)" in only(look(images, reader), "error")


def test_a_node_that_reports_only_some_images_leaves_a_doubt() -> None:
    reader = with_image("localhost/other:1", "Never")
    for name in ("cpu-1", "gpu-1"):
        many = [{"names": [f"x:{i}"]} for i in range(50)]
        reader.objects[f"/api/v1/nodes/{name}"]["status"]["images"] = many
    assert only(look(images, reader), "warning")


def test_always_pulled_is_told() -> None:
    assert "still pulled at every start" in only(look(images, with_image("alpha-rl:main", "Always")), "ok")


@pytest.mark.parametrize(
    "image", ["Alpha RL:main", "alpha-rl:", "alpha-rl:a/b", ":main", "", "x:{{inputs.y}}"]
)
def test_what_is_no_image_name_is_an_error(image: str) -> None:
    assert "is not the name of an image" in only(look(images, with_image(image)), "error")


def test_no_tag_is_an_error() -> None:
    assert "has no tag" in only(look(images, with_image("registry:5000/alpha-rl")), "error")


def test_a_digest_needs_no_tag() -> None:
    assert "must be pulled" in only(look(images, with_image(f"a.b/alpha-rl@sha256:{'0' * 64}")), "warning")


def test_nodes_that_cannot_be_seen_are_a_warning() -> None:
    reader = healthy()
    reader.denied = {"nodes"}
    assert "cannot be seen (not allowed to list nodes)" in only(look(images, reader), "warning")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("alpha-rl:main", "docker.io/library/alpha-rl:main"),
        ("team/alpha-rl:main", "docker.io/team/alpha-rl:main"),
        ("localhost/alpha-rl:dev", "localhost/alpha-rl:dev"),
        ("registry:5000/alpha-rl:1", "registry:5000/alpha-rl:1"),
        ("ghcr.example/alpha-rl:1", "ghcr.example/alpha-rl:1"),
    ],
)
def test_names_are_completed_as_a_node_does(name: str, full: str) -> None:
    assert full_name(name) == full


def test_no_pull_secret_says_nothing() -> None:
    assert look(pull_secrets, healthy()) == []


@pytest.mark.parametrize("place", ["template", "account"])
@pytest.mark.parametrize(("there", "level"), [(True, "ok"), (False, "error")])
def test_a_named_pull_secret_must_be_there_and_its_content_is_not_read(
    place: str, there: bool, level: str
) -> None:
    reader = healthy()
    named = [{"name": "registry"}]
    if place == "template":
        reader.objects[TEMPLATE]["spec"]["imagePullSecrets"] = named
    else:
        reader.objects[f"{OWN}/serviceaccounts/walkforward"]["imagePullSecrets"] = named
    if there:
        reader.objects[f"{OWN}/secrets/registry"] = {"metadata": {"name": "registry"}}
    assert "pull secret registry" in only(look(pull_secrets, reader), level)
    assert [only_meta for path, only_meta in reader.asked if "/secrets/" in path] == [True]


def test_an_absent_account_names_no_secret() -> None:
    reader = healthy()
    del reader.objects[f"{OWN}/serviceaccounts/walkforward"]
    assert look(pull_secrets, reader) == []


def test_nodes_of_two_architectures_are_a_warning() -> None:
    reader = healthy()
    assert look(architectures, reader) == []
    reader.objects["/api/v1/nodes/cpu-1"]["status"]["nodeInfo"]["architecture"] = "arm64"
    assert "amd64 and arm64" in texts(look(architectures, reader), "warning")[0]
