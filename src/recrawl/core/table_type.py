"""Let compiled kernels take a table, which is a `NamedTuple` of arrays and numbers, as one pointer.

numba passes a named tuple as all its parts: seven numbers for each array, some hundred for a
table, and a thousand for kernels that take several.  Every kernel on the way copies them, which
took most of the time to compile.  Here a call from Python writes the address and the length of
each column into a block of words once, and kernels pass on the address of that block.

A table is only borrowed: while a kernel runs, its caller holds the arrays, and the block does not
change.  So kernels may neither make tables nor return their columns.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import OpaqueModel
from numba.core.extending import NativeValue, register_model, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr

__all__ = ["TableType", "pass_by_pointer"]

_WORD = ir.IntType(64)
_BYTE_POINTER = ir.IntType(8).as_pointer()
_WORD_BYTES = 8


class TableType(types.Type):
    """Type of a table as an argument of a kernel.

    Parameters
    ----------
    table
        Class of the table.
    columns
        Type of each field.
    """

    def __init__(self, table: type, columns: tuple[Any, ...]) -> None:
        self.table = table
        self.columns = columns
        self.places: dict[str, tuple[int, Any]] = {}
        """First word and type of each field."""
        self.n_words = 0
        for name, column in zip(table._fields, columns, strict=True):  # type: ignore[attr-defined]
            self.places[name] = (self.n_words, column)
            self.n_words += _n_words(column)
        super().__init__(name=f"Table({table.__module__}.{table.__qualname__}, {columns})")

    @property
    def mangling_args(self) -> tuple[str, tuple[Any, ...]]:
        """Return the short name that symbols contain instead of the types of all fields."""
        return self.table.__qualname__, ()


def pass_by_pointer(table: type) -> None:
    """Let kernels take tables of this class by pointer."""
    if table not in typeof_impl.registry:
        typeof_impl.register(table)(_type_of_table)


def _type_of_table(value: Any, context: Any) -> Any:
    columns = tuple(typeof_impl(field, context) for field in value)
    if all(_is_storable(column) for column in columns):
        return TableType(type(value), columns)
    return types.NamedTuple(columns, type(value))


def _is_storable(column: Any) -> bool:
    if isinstance(column, types.Array):
        return bool(column.layout == "C")
    return column in (types.int64, types.float64, types.boolean) or isinstance(column, TableType)


def _n_words(column: Any) -> int:
    """Return the number of words of a field: an array has its address and its lengths."""
    if isinstance(column, types.Array):
        return 1 + int(column.ndim)
    return column.n_words if isinstance(column, TableType) else 1


register_model(TableType)(OpaqueModel)


@infer_getattr
class _TableAttribute(AttributeTemplate):
    key = TableType

    def generic_resolve(self, value: Any, attr: str) -> Any:  # type: ignore[override]
        return value.places[attr][1] if attr in value.places else None


@lower_getattr_generic(TableType)  # type: ignore[untyped-decorator]
def _load_field(context: Any, builder: Any, table: TableType, pointer: Any, name: str) -> Any:
    word, column = table.places[name]
    if isinstance(column, TableType):
        return _address(builder, pointer, word)
    if isinstance(column, types.Array):
        return _load_array(context, builder, column, pointer, word)
    if column == types.boolean:
        return builder.trunc(_load(builder, pointer, word, _WORD), ir.IntType(1))
    return _load(builder, pointer, word, context.get_value_type(column))


def _load_array(context: Any, builder: Any, column: Any, pointer: Any, word: int) -> Any:
    """Return an array that owns nothing, from its address and its lengths."""
    model = context.data_model_manager[column]
    parts = model.get_value_type()
    data = _load(builder, pointer, word, parts.elements[model.get_field_position("data")])
    lengths = [_load(builder, pointer, word + 1 + axis, _WORD) for axis in range(column.ndim)]
    item_bytes = context.get_abi_sizeof(context.get_data_type(column.dtype))
    stride = _WORD(item_bytes)
    strides: list[Any] = []
    for length in reversed(lengths):
        strides.insert(0, stride)
        if len(strides) < column.ndim:
            stride = builder.mul(stride, length, flags=["nsw"])
    n_items = lengths[0]
    for length in lengths[1:]:
        n_items = builder.mul(n_items, length, flags=["nsw"])
    array = ir.Constant(parts, None)
    for name, value in (
        ("nitems", n_items),
        ("itemsize", _WORD(item_bytes)),
        ("data", data),
        ("shape", cgutils.pack_array(builder, lengths, _WORD)),
        ("strides", cgutils.pack_array(builder, strides, _WORD)),
    ):
        array = builder.insert_value(array, value, model.get_field_position(name))
    return array


def _address(builder: Any, pointer: Any, word: int) -> Any:
    return builder.gep(pointer, [ir.IntType(32)(word * _WORD_BYTES)], inbounds=True)


def _load(builder: Any, pointer: Any, word: int, kind: Any) -> Any:
    """Load a word that does not change while the kernel runs, whatever the kernel writes."""
    load = builder.load(builder.bitcast(_address(builder, pointer, word), kind.as_pointer()))
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


@unbox(TableType)  # type: ignore[untyped-decorator]
def _unbox_table(table: TableType, value: Any, c: Any) -> Any:
    """Write the block of words of a table, and return its address."""
    block = cgutils.alloca_once(c.builder, _WORD, size=_WORD(max(table.n_words, 1)))
    _write_fields(table, value, c, block, 0)
    # An empty instruction hides where the address comes from: the loads of kernels count as
    # unchangeable, and must not be moved before these writes.
    hidden = ir.InlineAsm(
        ir.FunctionType(_BYTE_POINTER, [_BYTE_POINTER]), "", "=r,0,~{memory}", side_effect=True
    )
    address = c.builder.call(hidden, [c.builder.bitcast(block, _BYTE_POINTER)])
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def _write_fields(table: TableType, value: Any, c: Any, block: Any, first_word: int) -> None:
    fields = list(table.places.values())
    at = 0
    while at < len(fields):
        word, column = fields[at]
        place = c.builder.gep(block, [_WORD(first_word + word)])
        if isinstance(column, types.Array):
            n = 1
            while at + n < len(fields) and _is_same_size(fields[at + n][1], column):
                n += 1
            _write_arrays(value, c, place, at, n, column.ndim)
            at += n
            continue
        field = _field(c, value, _WORD(at))
        if isinstance(column, TableType):
            _write_fields(column, field, c, block, first_word + word)
        else:
            _write_number(column, field, c, place)
        at += 1


def _is_same_size(column: Any, array: Any) -> bool:
    return isinstance(column, types.Array) and bool(column.ndim == array.ndim)


def _field(c: Any, value: Any, at: Any) -> Any:
    """Return a field of a tuple, which holds the reference."""
    kind = ir.FunctionType(c.pyapi.pyobj, [c.pyapi.pyobj, _WORD])
    get = cgutils.get_or_insert_function(c.builder.module, kind, "PyTuple_GetItem")
    return c.builder.call(get, [value, at])


def _write_number(column: Any, field: Any, c: Any, place: Any) -> None:
    if column == types.float64:
        number = c.builder.bitcast(c.pyapi.float_as_double(field), _WORD)
    elif column == types.boolean:
        number = c.builder.zext(cgutils.is_not_null(c.builder, c.pyapi.object_istrue(field)), _WORD)
    else:
        number = c.pyapi.long_as_longlong(field)
    c.builder.store(number, place)


def _write_arrays(value: Any, c: Any, place: Any, first: int, n: int, ndim: int) -> None:
    """Write the addresses and lengths of ``n`` arrays of the same number of dimensions."""
    array = c.context.make_array(types.Array(types.uint8, ndim, "C"))(c.context, c.builder)
    kind = ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, c.pyapi.voidptr])
    read = cgutils.get_or_insert_function(c.builder.module, kind, "numba_adapt_ndarray")
    with cgutils.for_range(c.builder, _WORD(n)) as loop:
        field = _field(c, value, c.builder.add(loop.index, _WORD(first)))
        c.builder.call(read, [field, c.builder.bitcast(array._getpointer(), c.pyapi.voidptr)])
        at = c.builder.mul(loop.index, _WORD(1 + ndim))
        words = [c.builder.ptrtoint(array.data, _WORD)]
        words += cgutils.unpack_tuple(c.builder, array.shape, ndim)
        for k, word in enumerate(words):
            c.builder.store(word, c.builder.gep(place, [c.builder.add(at, _WORD(k))]))
