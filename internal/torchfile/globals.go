package torchfile

import (
	"errors"
	"fmt"

	"weft/internal/pickle"
)

// dtype is the element type of a storage or tensor.
type dtype struct {
	name string // as PyTorch spells it
	code string // NumPy's, without the byte order; "f4" for a float that NumPy lacks
	size int    // bytes per element
}

// widens reports whether elements become float32, because NumPy lacks their type.
func (d dtype) widens() bool { return d.code == "f4" && d.size < 4 }

type typeAndStorage struct {
	dtype
	storage string
}

// These are the types of PyTorch and the names of their storages. Types since PyTorch 2.1 have no storage
// name.
var dtypes = []typeAndStorage{
	{dtype{"float32", "f4", 4}, "FloatStorage"},
	{dtype{"float64", "f8", 8}, "DoubleStorage"},
	{dtype{"float16", "f2", 2}, "HalfStorage"},
	{dtype{"bfloat16", "f4", 2}, "BFloat16Storage"},
	{dtype{"int64", "i8", 8}, "LongStorage"},
	{dtype{"int32", "i4", 4}, "IntStorage"},
	{dtype{"int16", "i2", 2}, "ShortStorage"},
	{dtype{"int8", "i1", 1}, "CharStorage"},
	{dtype{"uint8", "u1", 1}, "ByteStorage"},
	{dtype{"bool", "b1", 1}, "BoolStorage"},
	{dtype{"complex64", "c8", 8}, "ComplexFloatStorage"},
	{dtype{"complex128", "c16", 16}, "ComplexDoubleStorage"},
	{dtype{"uint16", "u2", 2}, ""},
	{dtype{"uint32", "u4", 4}, ""},
	{dtype{"uint64", "u8", 8}, ""},
	{dtype{"float8_e4m3fn", "f4", 1}, ""},
	{dtype{"float8_e5m2", "f4", 1}, ""},
}

// storageType is a class of storages, which persistent ids name.
type storageType struct{ dtype }

// globals are PyTorch's own, without the classes of a program.
var globals = func() map[string]any {
	g := map[string]any{
		"torch.Size":                                 pickle.Function(size),
		"torch.device":                               pickle.Class("torch.device"),
		"torch.serialization._get_layout":            pickle.Function(layout),
		"torch.storage.UntypedStorage":               storageType{dtype{"uint8", "u1", 1}},
		"torch.Tensor":                               pickle.Class("torch.Tensor"),
		"torch._tensor._rebuild_from_type_v2":        pickle.Function(rebuildOfClass),
		"torch._utils._rebuild_tensor":               pickle.Function(rebuildTensor),
		"torch._utils._rebuild_tensor_v2":            pickle.Function(rebuildTensor),
		"torch._utils._rebuild_tensor_v3":            pickle.Function(rebuildTyped),
		"torch._utils._rebuild_wrapper_subclass":     pickle.Function(rebuildWrapper),
		"torch._utils._rebuild_parameter":            pickle.Function(rebuildParameter),
		"torch._utils._rebuild_parameter_with_state": pickle.Function(rebuildParameter),
		"torch._utils._rebuild_sparse_tensor":        pickle.Function(rebuildSparse),
		"torch._utils._rebuild_sparse_csr_tensor":    pickle.Function(rebuildSparse),
	}
	for _, d := range dtypes {
		g["torch."+d.name] = d.dtype
		if d.storage != "" {
			g["torch."+d.storage] = storageType{d.dtype}
		}
	}
	return g
}()

// size makes torch.Size, a tuple.
func size(args pickle.Tuple) (any, error) {
	if len(args) == 1 {
		if dims, ok := args[0].(pickle.Tuple); ok {
			return dims, nil
		}
	}
	return nil, errors.New("torch.Size of something else than a tuple")
}

// layout makes a layout, whose value is its name.
func layout(args pickle.Tuple) (any, error) {
	if len(args) == 1 {
		if name, ok := args[0].(string); ok {
			return Layout(name), nil
		}
	}
	return nil, errors.New("a layout without a name")
}

// persistent makes a storage of ("storage", type, key, device, elements).
func (f *File) persistent(id any) (any, error) {
	t, ok := id.(pickle.Tuple)
	if !ok || len(t) != 5 || t[0] != "storage" {
		return nil, errors.New("names something outside the pickle that is not a storage")
	}
	kind, okKind := t[1].(storageType)
	key, okKey := t[2].(string)
	elements, okElements := t[4].(int64)
	if !okKind || !okKey || !okElements {
		return nil, errors.New("a storage that is not its type, key, device and size")
	}
	s := f.storages[key]
	if s == nil {
		entry := f.entries[f.folder+"/data/"+key]
		if entry == nil {
			return nil, fmt.Errorf("has no entry for storage %.40q: fetch or save it again", key)
		}
		s = &storage{file: f, key: key, bytes: entry.UncompressedSize64}
		f.storages[key] = s
	}
	if s.bytes > uint64(f.Size) {
		return nil,
			fmt.Errorf("storage %.40q claims %d bytes, more than the file has: fetch or save it again", key,
				s.bytes)
	}
	if elements < 0 || uint64(elements) > s.bytes/uint64(kind.size) {
		return nil, fmt.Errorf("storage %.40q claims %d elements of %d bytes, and has %d bytes", key,
			elements, kind.size, s.bytes)
	}
	return window{s, kind.dtype, elements}, nil
}

// rebuildOfClass makes the tensor in an object of a class of tensors, from (function, class, arguments of the
// function, attributes). A class that wraps a tensor, as PyTorch Geometric's EdgeIndex, has it in _data.
func rebuildOfClass(args pickle.Tuple) (any, error) {
	if len(args) != 4 {
		return nil, errTensor
	}
	function, okFunction := args[0].(pickle.Function)
	inner, okArgs := args[2].(pickle.Tuple)
	if !okFunction || !okArgs {
		return nil, errTensor
	}
	if len(inner) > 0 {
		if _, again := inner[0].(pickle.Function); again { // this function, perhaps a million times
			return nil, errTensor
		}
	}
	made, err := function(inner)
	if err != nil {
		return nil, err
	}
	switch made.(type) {
	case *Tensor, *Sparse:
		return made, nil
	case wrapper:
		if attributes, ok := args[3].(*pickle.Dict); ok && len(attributes.Items) <= maxAttributes {
			value, _ := attributes.Get("_data")
			if t, ok := value.(*Tensor); ok {
				return t, nil
			}
		}
		return nil, errors.New("a tensor of a class that wraps none")
	}
	return nil, errTensor
}

// maxAttributes bounds the attributes of one tensor.
const maxAttributes = 64

// wrapper is a tensor without elements of its own: its attributes have another tensor.
type wrapper struct{}

// rebuildWrapper makes a wrapper from (class, dtype, size, stride, …). The other tensor has these, too.
func rebuildWrapper(pickle.Tuple) (any, error) { return wrapper{}, nil }

// rebuildParameter makes a tensor of (tensor, gradient, hooks) or (tensor, gradient, hooks, attributes).
func rebuildParameter(args pickle.Tuple) (any, error) {
	if len(args) > 0 {
		if t, ok := args[0].(*Tensor); ok {
			return t, nil
		}
	}
	return nil, errTensor
}

// rebuildSparse makes a sparse tensor of (layout, (tensor, …, size, …)) or (layout, tensor, …, size, …).
func rebuildSparse(args pickle.Tuple) (any, error) {
	if len(args) != 2 {
		return nil, errTensor
	}
	const most = 4 // bounds, ids, values and sizes
	name, okName := args[0].(Layout)
	state, okState := args[1].(pickle.Tuple)
	if !okName || !okState || len(state) > most {
		return nil, errTensor
	}
	s := &Sparse{Layout: name}
	for k, part := range state {
		if t, ok := part.(*Tensor); ok {
			s.Parts = append(s.Parts, t)
			continue
		}
		dims, ok := part.(pickle.Tuple)
		if !ok || len(state) > k+2 {
			break
		}
		var err error
		s.Shape, err = sizes(dims)
		return s, err
	}
	return nil, errTensor
}
