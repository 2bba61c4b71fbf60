"""Arrays of other libraries as NumPy's, and their .npy files. No library is imported: types tell by their
modules."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ._errors import Refused

Array = NDArray[Any]

_BLOCK = 1 << 22  # elements


def is_of(value: Any, package: str, *names: str) -> bool:
    """Whether a value is of one of those classes of a package, or of one derived from them."""
    return any(c.__module__.partition(".")[0] == package and c.__name__ in names for c in type(value).__mro__)


def is_torch(value: Any) -> bool:
    return is_of(value, "torch", "Tensor")


def is_scipy(value: Any) -> bool:
    return any(c.__module__.startswith("scipy.sparse") for c in type(value).__mro__)


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse matrix: of SciPy, of PyTorch, or a SparseTensor of torch_sparse."""
    return (
        is_scipy(value)
        or is_of(value, "torch_sparse", "SparseTensor")
        or is_torch(value)
        and str(value.layout) != "torch.strided"
    )


def dense(tensor: Any, name: str) -> Any:
    """A tensor of PyTorch as NumPy can read it."""
    if tensor.is_meta:
        raise Refused(f"{name}: a tensor on the device meta has no values; give one with values")
    if str(tensor.layout) != "torch.strided":
        raise Refused(
            f"{name}: a tensor of the layout {tensor.layout} is not read here; give tensor.to_dense()"
        )
    if tensor.is_quantized:
        raise Refused(f"{name}: a tensor of {tensor.dtype} is quantized; give tensor.dequantize()")
    return tensor.detach().cpu().resolve_conj().resolve_neg()


def array(value: Any, name: str, gap: int | None = None) -> Array:
    """The array of a value, which shares its memory where the library allows it.

    Args:
        value: an array of NumPy, a tensor of PyTorch on any device, a table or column of pandas, or what
            ``numpy.asarray`` takes.
        name: of the argument, for errors.
        gap: what stands for each missing one of integers that are Python's objects (None, ``pandas.NA``), of
            pandas' ``Int64`` or masked (``numpy.ma``); None: NaN, in an array of floats.

    Raises:
        Refused: it is no array of numbers, booleans or text, or some are masked and there is no gap.
    """
    if is_torch(value):
        if hasattr(value, "as_tensor"):  # EdgeIndex of PyTorch Geometric
            value = value.as_tensor()
        value = dense(value, name)
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        made: Array = value.numpy()
    elif hasattr(value, "to_numpy"):
        made = value.to_numpy()
    else:
        try:
            made = _filled(value, name, gap) if _is_masked(value) else np.asarray(value)
        except Refused:
            raise
        except ValueError as err:  # rows of several lengths
            raise Refused(f"{name}: is no array: {err}") from None
    if made.dtype.kind == "O":
        made = _of_objects(made, name, gap)
    elif (
        gap is not None
        and made.dtype.kind == "f"
        and getattr(getattr(value, "dtype", None), "kind", "") in {"i", "u"}
    ):
        made = np.where(np.isnan(made), gap, made).astype(np.int64)  # pandas' Int64
    if made.dtype.kind not in "biufUO":
        raise Refused(f"{name}: has the type {made.dtype}: give numbers")
    return made


def chosen(value: Any, name: str, count: int, noun: str) -> Array:
    """The numbers of some of so many rows.

    Args:
        value: the numbers, from 0, or a mask of booleans.
        name: of the argument, for errors.
        noun: what the rows are of, as edges.

    Raises:
        Refused: they are others.
    """
    made = array(value, name)
    if made.size == 0:
        return np.zeros(0, np.int64)
    if made.ndim != 1 or made.dtype.kind not in "biu" or made.dtype.kind == "b" and len(made) != count:
        raise Refused(
            f"{name}: has the shape {made.shape} of {made.dtype}: give numbers of {noun}, or {count:,} "
            "booleans"
        )
    if made.dtype == np.uint8:  # PyTorch takes it for a mask, and NumPy for numbers
        raise Refused(f"{name}: holds uint8, a mask or numbers of {noun}: give booleans, or numbers as int64")
    if made.dtype.kind == "b":
        return np.flatnonzero(made)
    if not 0 <= made.min() <= made.max() < count:
        raise Refused(
            f"{name}: {made.max() if made.max() >= count else made.min()} is no number of {count:,} {noun}, "
            "from 0"
        )
    return made.astype(np.int64)


def _is_masked(value: Any) -> bool:
    """Whether a value is a masked array of NumPy, or a list that has one."""
    return any(
        isinstance(one, np.ma.MaskedArray)
        for one in (value, *(value if isinstance(value, (list, tuple)) else ()))
    )


def _filled(masked: Any, name: str, gap: int | None) -> Array:
    """A masked array, or a list that has one, with what stands for a missing one where it is masked."""
    value = np.ma.array(masked)
    there, mask = np.ma.getdata(value), np.ma.getmaskarray(value)
    count = int(mask.sum())
    if count == 0:
        return there
    whole = there.dtype.kind in "iu"
    if gap is None or there.dtype.kind == "b" or whole and there.ndim > 1:
        are = "value is" if count == 1 else "values are"
        raise Refused(
            f"{name}: {count} {are} masked: leave out what has none, or give one for each, as by .filled(0)"
        )
    if whole:
        return np.where(mask, gap, there.astype(np.int64))
    filled = there.copy() if there.dtype.kind == "f" else there.astype(object)
    filled[mask] = np.nan if there.dtype.kind == "f" else None
    return filled


def is_missing(value: Any) -> bool:
    """Whether an object stands for no value: None, NaN, ``pandas.NA`` or ``pandas.NaT``."""
    return (
        value is None
        or is_of(value, "pandas", "NAType", "NaTType")
        or isinstance(value, (float, np.floating))
        and bool(np.isnan(value))
    )


def _of_objects(made: Array, name: str, gap: int | None) -> Array:
    """An array of Python's objects that are numbers, as an array of these; texts stay, with None for those
    that are missing."""
    values = made.ravel().tolist()
    there = [value for value in values if not is_missing(value)]
    if all(isinstance(value, (int, float, np.number, np.bool_)) for value in there):
        whole = all(isinstance(value, (int, np.integer, np.bool_)) for value in there)
        fill = gap if gap is not None and whole and there else float("nan")
        return np.array([fill if is_missing(value) else value for value in values]).reshape(made.shape)
    if all(isinstance(value, str) for value in there):
        texts = np.empty(made.shape, object)
        texts.ravel()[:] = [None if is_missing(value) else value for value in values]
        return texts
    kinds = " and ".join(dict.fromkeys(type(value).__name__ for value in there))
    raise Refused(
        f"{name}: is no array of numbers or texts: it holds {kinds}; give one kind, as by .astype(float) or "
        ".astype(str)"
    )


@dataclass
class Rows:
    """The row of each value of a matrix of compressed rows, which is written a block at a time."""

    bounds: Array  # a row more than the matrix has

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def all(self) -> Array:
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    def write(self, file: BinaryIO, dtype: np.dtype[Any]) -> None:
        begin, last = 0, len(self.bounds) - 1
        while begin < last:
            end = int(np.searchsorted(self.bounds, self.bounds[begin] + _BLOCK, side="right")) - 1
            end = min(max(end, begin + 1), last)
            counts = np.diff(self.bounds[begin : end + 1])
            file.write(np.repeat(np.arange(begin, end, dtype=dtype), counts).data)
            begin = end


@dataclass
class Ends:
    """The sources and the targets of edges, of which no array 2 × E is made."""

    source: Array | Rows
    target: Array | Rows

    @property
    def nbytes(self) -> int:
        return 2 * len(self.source) * self._dtype().itemsize

    def _dtype(self) -> np.dtype[Any]:
        types = [part.dtype for part in (self.source, self.target) if not isinstance(part, Rows)]
        return np.result_type(*types)

    def write(self, file: BinaryIO) -> None:
        dtype = self._dtype()
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (2, len(self.source)),
        }
        np.lib.format.write_array_header_1_0(file, header)
        for part in (self.source, self.target):
            if isinstance(part, Rows):
                part.write(file, dtype)
            else:
                for at in range(0, len(part), _BLOCK):
                    file.write(np.ascontiguousarray(part[at : at + _BLOCK], dtype).data)


class _Written:
    """A file of which NumPy knows its write alone: an error has its reason, which that of tofile lacks."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


def save(path: str | os.PathLike[str], value: Array | Ends) -> None:
    """Writes an .npy file, without a copy of the whole."""
    with open(path, "wb") as file:
        if isinstance(value, Ends):
            value.write(file)
        else:
            np.save(_Written(file), value, allow_pickle=False)


@dataclass
class Sparse:
    """A sparse matrix, by rows: the values of row i are those from bounds[i] on, up to bounds[i + 1]."""

    bounds: Array
    columns: Array
    values: Array | None  # None: all are one
    shape: tuple[int, int]


@dataclass
class Coordinates:
    """A sparse matrix with the row and the column of each value."""

    rows: Array
    columns: Array
    values: Array | None  # None: all are one
    shape: tuple[int, int]


def sparse(value: Any, name: str) -> Sparse | Coordinates:
    """The sparse matrix of SciPy, PyTorch or torch_sparse, which shares its arrays where they are by rows or
    lists."""
    if is_scipy(value):
        if value.format not in ("csr", "coo"):
            value = value.tocsr()
        if value.ndim != 2:
            raise Refused(f"{name}: has {value.ndim} dimensions: a matrix has two")
        if value.format == "coo":
            return Coordinates(value.row, value.col, _values(value.data), value.shape)
        return Sparse(value.indptr, value.indices, _values(value.data), value.shape)
    if is_of(value, "torch_sparse", "SparseTensor"):
        bounds, columns, values = value.csr()
        size = value.sizes()
        return Sparse(
            array(bounds, name),
            array(columns, name),
            None if values is None else _values(array(values, name)),
            (size[0], size[1]),
        )
    shape = tuple(value.shape)
    if len(shape) != 2:
        raise Refused(f"{name}: has {len(shape)} dimensions: a matrix has two")
    layout = str(value.layout)
    if layout in ("torch.sparse_bsr", "torch.sparse_bsc"):
        raise Refused(
            f"{name}: a matrix of blocks, {layout}, is not read; give tensor.to_dense().to_sparse_csr()"
        )
    if value.is_meta:
        raise Refused(f"{name}: a tensor on the device meta has no values; give one with values")
    if layout not in ("torch.sparse_coo", "torch.sparse_csr"):
        value = value.to_sparse_csr()
        layout = "torch.sparse_csr"
    if layout == "torch.sparse_csr":
        return Sparse(
            array(value.crow_indices(), name),
            array(value.col_indices(), name),
            _values(array(value.values(), name)),
            shape,
        )
    ends = array(value._indices(), name)  # as they are listed, coalesced or not
    return Coordinates(ends[0], ends[1], _values(array(value._values(), name)), shape)


def _values(values: Array) -> Array | None:
    if values.dtype.kind == "b":
        return None if values.all() else values.astype(np.float32)
    return None if (values == 1).all() else values


def edges_of(matrix: Sparse | Coordinates, by_target: bool = False) -> Ends:
    """The edges of an adjacency: from the row of each value to its column, or the other way."""
    rows = Rows(matrix.bounds) if isinstance(matrix, Sparse) else matrix.rows
    return Ends(matrix.columns, rows) if by_target else Ends(rows, matrix.columns)


def rows_of(matrix: Sparse | Coordinates) -> Sparse:
    """The matrix by rows; of a list, in the order of the list within each row."""
    if isinstance(matrix, Sparse):
        return matrix
    order = np.argsort(matrix.rows, kind="stable")
    bounds = np.zeros(matrix.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(matrix.rows, minlength=matrix.shape[0]), out=bounds[1:])
    return Sparse(
        bounds, matrix.columns[order], None if matrix.values is None else matrix.values[order], matrix.shape
    )


def placed(rows: Array, order: Array | None) -> Array:
    """The rows of a store's edges, each at its place in another order; None: as they are."""
    if order is None:
        return rows
    made = np.empty_like(rows)
    made[order] = rows
    return made


def range_of_whole(y: Array) -> str | None:
    """The least and the largest of floats that are whole numbers and not all 0 and 1; None: they are
    others."""
    there = y[~np.isnan(y)] if y.dtype.kind == "f" else y[:0]
    if there.size == 0 or (there != np.trunc(there)).any() or np.isin(there, (0, 1)).all():
        return None
    return f"{there.min():.0f} to {there.max():.0f}"
