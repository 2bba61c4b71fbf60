package npz

import (
	"fmt"
	"strings"

	"weft/graph/internal/arrays"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// layout says how a sparse matrix lies in three arrays.
type layout struct {
	parts [3]string
	read  func(rows, columns int64, a, b, c *npy.Array) (*arrays.CSR, error)
}

var (
	csr = layout{[3]string{"indptr", "indices", "data"}, arrays.NewCSR}
	csc = layout{csr.parts, arrays.NewCSC}
	coo = layout{[3]string{"row", "col", "data"}, arrays.NewCoordinates}
)

// matrixKeys are the arrays that scipy.sparse.save_npz writes: the arrays of its formats and, since SciPy
// 1.11, whether the matrix is an array.
var matrixKeys = [...]string{"format", "shape", "data", "indices", "indptr", "row", "col", "_is_array"}

// ReadMatrix reads features from an archive that scipy.sparse.save_npz wrote, of a matrix in the format csr,
// csc or coo. Complaints about the file are refusals that name it.
func ReadMatrix(path string) (*arrays.Matrix, error) {
	a, err := arrays.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if !isMatrix(a) {
		return nil, refusal.Errorf("%s: holds arrays (%s), no sparse matrix: give what "+
			"scipy.sparse.save_npz or numpy.save writes", path, a.Keys())
	}
	if err := a.Only(matrixKeys[:]...); err != nil {
		return nil, err
	}
	name, _, err := arrays.Elements(a.Fields, "format", (*npy.Array).Strings)
	if err != nil {
		return nil, err
	}
	known, ok := map[string]layout{"csr": csr, "csc": csc, "coo": coo}[strings.Join(name, " ")]
	if !ok || !a.Has(known.parts[:]...) {
		return nil, refusal.Errorf("%s: its sparse matrix is none of the formats that are read, csr, csc "+
			"and coo: save it after .tocsr()", path)
	}
	m, err := readSparse(a, "", known)
	if err != nil {
		return nil, err
	}
	features, err := m.Matrix()
	return features, refusal.In(path, err)
}

// isMatrix reports whether scipy.sparse.save_npz wrote the archive.
func isMatrix(a *arrays.Archive) bool { return a.Has("format", "shape", "data") }

// readShape reads the rows and columns of the sparse matrix in the arrays whose names begin so.
func readShape(a *arrays.Archive, prefix string) (rows, columns int64, err error) {
	key := prefix + "shape"
	dims, _, err := arrays.Elements(a.Fields, key, (*npy.Array).Int64s)
	if err != nil {
		return 0, 0, err
	}
	if len(dims) != 2 {
		return 0, 0, a.Refuse(key, refusal.Errorf("has %d values: a matrix has two dimensions", len(dims)))
	}
	return dims[0], dims[1], nil
}

// readSparse reads the sparse matrix of that layout in the arrays whose names begin so.
func readSparse(a *arrays.Archive, prefix string, l layout) (*arrays.CSR, error) {
	rows, columns, err := readShape(a, prefix)
	if err != nil {
		return nil, err
	}
	var parts [3]*npy.Array
	for i, part := range l.parts {
		if parts[i], err = a.Array(prefix + part); err != nil {
			return nil, err
		}
	}
	m, err := l.read(rows, columns, parts[0], parts[1], parts[2])
	return m, refuseMatrix(a, prefix, err)
}

// readSparseFeatures reads features of so many vertices from such a csr_matrix.
func readSparseFeatures(a *arrays.Archive, prefix string, vertices int) (*arrays.Matrix, error) {
	m, err := readSparse(a, prefix, csr)
	if err != nil {
		return nil, err
	}
	features, err := m.Matrix()
	if err != nil {
		return nil, a.Refuse(prefix+"indices", err)
	}
	return features, a.Rows(prefix+"shape", m.Rows, vertices)
}

// refuseMatrix prefixes an error with the file and the arrays whose names begin with prefix.
func refuseMatrix(a *arrays.Archive, prefix string, err error) error {
	return refusal.In(fmt.Sprintf("%s: arrays %q", a.Path, a.Key(prefix)+"…"), err)
}
