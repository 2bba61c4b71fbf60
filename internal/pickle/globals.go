package pickle

import "fmt"

// Dialect lists the globals of one program's pickles beside numbers, NumPy's arrays and SciPy's matrices. Its
// zero value lists none.
type Dialect struct {
	// Globals maps each global's name, with its module, to what the global becomes: a Function, which the
	// pickle may call; a Class, whose objects it may make; or any other value, which it may use unchanged.
	Globals map[string]any
	// Persistent returns the value of a persistent id, which lies outside the pickle. nil: there are no such
	// ids.
	Persistent func(id any) (any, error)
}

// Function is a global that a pickle may call: it returns a value made of its arguments.
type Function func(args Tuple) (any, error)

// Class is the name, with the module, of a class that a pickle may make objects of. No code of the class
// runs.
type Class string

// Object is an object of a Class, or the result of a call of one. It has the arguments that made it and its
// later state, by default a dict of attributes.
type Object struct {
	Class Class
	Args  Tuple
	State any
}

// plain is a global that is only an argument of functions, or a class of this package's own.
type plain int

const (
	ndarray plain = iota
	csrMatrix
	list
	encode
)

// globals is the allow-list that all dialects share, in the spellings of Python 2 and 3.
var globals = map[string]any{
	"numpy.core.multiarray._reconstruct":  Function(reconstruct),
	"numpy._core.multiarray._reconstruct": Function(reconstruct),
	"numpy.core.multiarray.scalar":        Function(scalar),
	"numpy._core.multiarray.scalar":       Function(scalar),
	"numpy.ndarray":                       ndarray,
	"numpy.dtype":                         Function(newDtype),
	"scipy.sparse.csr.csr_matrix":         csrMatrix,
	"scipy.sparse._csr.csr_matrix":        csrMatrix,
	"collections.OrderedDict":             Function(orderedDict),
	"collections.defaultdict":             Function(defaultDict),
	"_codecs.encode":                      encode,
	"__builtin__.list":                    list,
	"builtins.list":                       list,
	"__builtin__.set":                     Function(set),
	"builtins.set":                        Function(set),
	"__builtin__.frozenset":               Function(set),
	"builtins.frozenset":                  Function(set),
}

// itemSizes are the allowed item types of an array. Objects ("O8") are not among them: they would be further
// pickles.
var itemSizes = map[string]int{
	"b1": 1, "i1": 1, "u1": 1, "i2": 2, "u2": 2, "f2": 2, "i4": 4, "u4": 4, "f4": 4,
	"i8": 8, "u8": 8, "f8": 8,
}

func reconstruct(args Tuple) (any, error) {
	if len(args) != 3 || args[0] != ndarray {
		return nil, fmt.Errorf("_reconstruct makes something else than an ndarray")
	}
	return &Array{}, nil
}

// scalar makes an array without dimensions of one number.
func scalar(args Tuple) (any, error) {
	if len(args) == 2 {
		d, okType := args[0].(*dtype)
		data, okData := args[1].(string)
		if okType && okData && len(data) == d.size {
			return &Array{Dtype: d.order + d.code, Shape: []int{}, Data: data}, nil
		}
	}
	return nil, fmt.Errorf("a scalar that is not a type and the bytes of one number")
}

// dtype is a NumPy dtype that the pickle is building: BUILD adds the byte order to a dtype that the memo
// already has.
type dtype struct {
	code  string // "f4"
	order string // "<", ">", "=" or "|"
	size  int    // bytes per item
}

func newDtype(args Tuple) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("dtype without a type")
	}
	code, _ := args[0].(string)
	size, ok := itemSizes[code]
	if !ok {
		return nil, fmt.Errorf("arrays of type %.20q are not read: numbers only", code)
	}
	return &dtype{code: code, order: "|", size: size}, nil
}

func orderedDict(args Tuple) (any, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("OrderedDict of items")
	}
	return &Dict{}, nil
}

// defaultDict makes a dict. It never calls the function that would make missing values.
func defaultDict(args Tuple) (any, error) {
	if len(args) == 1 {
		switch args[0].(type) {
		case plain, Function:
		default:
			return nil, fmt.Errorf("defaultdict of something else than list or set")
		}
	}
	if len(args) > 1 {
		return nil, fmt.Errorf("defaultdict of items")
	}
	return &Dict{}, nil
}

// set makes a list of a set's items.
func set(args Tuple) (any, error) {
	if len(args) == 1 {
		if items, ok := args[0].(*List); ok {
			return items, nil
		}
	}
	return nil, fmt.Errorf("set of something else than a list")
}

// call is REDUCE: it returns the value of a global for its arguments.
func (d *decoder) call(global any, args Tuple) (any, error) {
	switch g := global.(type) {
	case Function:
		return g(args)
	case Class:
		return &Object{Class: g, Args: args}, nil
	// A class whose objects are functions: the arguments identify the result.
	case *Object:
		return &Object{Class: g.Class, Args: args}, nil
	case plain:
		if g == encode {
			return d.encode(args)
		}
	}
	return nil, fmt.Errorf("the pickle calls something that is not a function")
}

// encode makes bytes of a text whose characters each stand for one byte: Python 3 so writes bytes in
// protocols before 3. It encodes each text once, as a short pickle could otherwise make very many bytes of
// one text.
func (d *decoder) encode(args Tuple) (any, error) {
	if len(args) != 2 || args[1] != "latin1" {
		return nil, fmt.Errorf("bytes in an encoding that is not latin1")
	}
	text, _ := args[0].(string)
	d.encoded += len(text)
	if d.encoded > len(d.data) {
		return nil, fmt.Errorf("more encoded text than the pickle has")
	}
	if err := needText(text); err != nil {
		return nil, err
	}
	bytes := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return nil, fmt.Errorf("bytes with the character %q", r)
		}
		bytes = append(bytes, byte(r))
	}
	return string(bytes), nil
}

// create is NEWOBJ: it makes an object of a class, without a state.
func create(_ *decoder, class any, args Tuple) (any, error) {
	switch c := class.(type) {
	case Class:
		return &Object{Class: c, Args: args}, nil
	case plain:
		if c == csrMatrix && len(args) == 0 {
			return &CSR{}, nil
		}
	}
	return nil, fmt.Errorf("makes an object that is not an empty csr_matrix")
}

// build is BUILD: it gives an object its state.
func build(object, state any) error {
	switch o := object.(type) {
	case *dtype:
		// (version, byte order, subdtype, names, fields, item size, alignment, flags)
		t, ok := state.(Tuple)
		if !ok || len(t) < 5 || t[2] != nil || t[3] != nil || t[4] != nil {
			return fmt.Errorf("dtype with a state of its own kind: plain numbers only")
		}
		order, _ := t[1].(string)
		if order != "<" && order != ">" && order != "=" && order != "|" {
			return fmt.Errorf("dtype with byte order %.20q", order)
		}
		o.order = order
		return nil
	case *Array:
		return o.build(state)
	case *CSR:
		return o.build(state)
	case *Object:
		o.State = state
		return nil
	case *Dict: // attributes beside the items, which nobody reads
		return nil
	}
	return fmt.Errorf("state for a value that takes none")
}
