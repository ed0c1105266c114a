"""What the builders of layers are handed: a class, the release and the config it is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.engine.models.arch_config import Numbers
    from kvplan.engine.models.fields import Fields
    from kvplan.engine.models.recipe import Recipe
    from kvplan.engine.models.registered import Registration
    from kvplan.releases import Release


@dataclass(frozen=True, slots=True)
class Construction:
    """What a builder needs to know about the class it stands for."""

    release: Release
    architecture: str
    """The name to blame in messages."""
    source: str
    """The architecture name in the config, which names the wrapped class on the Transformers backend."""
    entry: Registration
    recipe: Recipe
    config: Fields
    text: Fields
    numbers: Numbers
    use_mla: bool
    prefix: str = ""
    """Where the class hangs in the module tree, empty at the top."""
    indexer_dtype: str = "auto"
    """What --attention-config asks of the indexers' key caches."""
    datacenter_blackwell: bool = True
    """Whether the GPU's compute capability is 10.x, which keys as mxfp4 need."""

    @property
    def count(self) -> int:
        """Decoder layers."""
        return self.numbers.num_layers

    def name(self, index: int) -> str:
        """Module prefix of the attention of decoder layer `index`."""
        return self.place(self.recipe.layout.replace("{i}", str(index)))

    def place(self, path: str) -> str:
        """`path` below the class's own place in the module tree."""
        if not self.prefix or path.startswith("."):
            return self.prefix + path
        return f"{self.prefix}.{path}"
