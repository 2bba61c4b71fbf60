package arrays

import (
	"bytes"
	"math"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/internal/names"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// LabelRows are the labels of a file: an array for Labels or, if Names has the classes, one class per vertex,
// −1 where unlabelled.
type LabelRows struct {
	*npy.Array
	Names []string // ascending
	ByID  bool     // the file says to which vertex each row belongs
	As    Meaning
}

// Meaning says what numbers mean as labels.
type Meaning int

// The meanings of numbers as labels.
const (
	ByType       Meaning = iota // integers are classes, floats are values
	PerhapsWhole                // whole floats are classes, too, if there are few: tables with gaps have them
	Values                      // all are values to predict
)

// Labels are those of the rows.
func (l *LabelRows) Labels() (graph.Labels, error) {
	switch {
	case l.Names != nil:
		ids, err := l.Int64s()
		return graph.Labels{Classes: len(l.Names), Class: ids, Names: l.Names}, err
	case l.As == Values:
		return continuous(l.Array, graph.VertexNoun)
	case l.As == PerhapsWhole && l.Floats():
		return WholeLabels(l.Array, min(FewClasses, l.Shape[0]))
	}
	return Labels(l.Array, graph.VertexNoun)
}

// FewClasses is the number of classes up to which numbers count as classes without a note. If there are more,
// they are probably values to predict.
const FewClasses = 100

// ManyClasses reports whether numbers of so many vertices are more likely values to predict than so many
// classes.
func ManyClasses(classes, vertices int) bool { return classes > FewClasses || 3*classes >= vertices }

// ReadLabels is ReadFile for labels, which may also be names of classes in one column: an array of text, or
// lines of words, even several between spaces. The first of these lines is a header, unless another line has
// the same words. An empty line, or NaN, is no label. Text may have a first column of ids, which key
// resolves. With the Meaning Values the file has only numbers.
func ReadLabels(path string, most int64, key *Key, as Meaning) (*LabelRows, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := &classNames{table: names.NewTable()}
	var a *npy.Array
	if f.Kind == foreign.Array {
		if a, err = ReadFile(path, most); err == nil && as == Values {
			return &LabelRows{Array: a, As: as}, nil
		}
		if err == nil {
			a, err = n.ofArray(a)
		}
		if err != nil {
			return nil, refusal.In(path, err)
		}
		return n.sorted(a)
	}
	if f.Kind == foreign.Parquet {
		return f.columnOfLabels(most, key, as)
	}
	t := f.text(most)
	t.names, t.key, t.as = n, key, as
	if as == Values {
		t.names = nil
	}
	if a, err = t.all(); err != nil {
		return nil, err
	}
	if n.text {
		a, err = n.withHeader(a)
	}
	if err == nil && n.text && n.spaced && !n.alone && a.Shape[0] == len(n.table.Names) {
		err = refusal.Errorf("%s: several columns, or names of classes with spaces, each in one line "+
			"alone: give one column, or put names in quotes", path)
	}
	if err != nil {
		return nil, err
	}
	return t.labels(n, a)
}

// labels makes the labels of an array. n has the names of classes.
func (t *numbers) labels(n *classNames, a *npy.Array) (*LabelRows, error) {
	rows, err := n.sorted(a)
	if err == nil {
		rows.ByID, rows.As = t.ids != nil, t.as
	}
	return rows, err
}

// classNames numbers the classes of a column, which are known by name, in the order in which they appear.
type classNames struct {
	table   *names.Table
	header  []byte // nil: there is none
	text    bool   // the column has names
	numbers bool   // it has a number
	// spaced says that the first line has spaces, which may separate columns. alone says that a later line
	// has none, or has quotes.
	spaced, alone bool
}

// begin keeps the header.
func (n *classNames) begin(header []byte) {
	if n != nil {
		n.header = bytes.Clone(header)
	}
}

// number takes a value of the table that is no name.
func (n *classNames) number(x float64) {
	if n != nil && !math.IsNaN(x) {
		n.numbers = true
	}
}

// nameClass takes a line of a column of names, as a row with the number of its class.
func (t *numbers) nameClass(line []byte) (row bool, err error) {
	n := t.names
	if n == nil || n.numbers || t.columns != 1 {
		return false, nil
	}
	name := t.name(line)
	n.alone = n.alone || len(t.fields) == 1
	if x, _ := t.number(name); math.IsNaN(x) { // unlabelled
		return false, nil
	}
	if !n.text && !t.hasWord() {
		return false, nil
	}
	n.text = true
	id, err := n.add(name)
	if err != nil {
		return false, err
	}
	t.values = append(t.values[:0], float64(id))
	return true, nil
}

// name is the only field of a line, or all of it.
func (t *numbers) name(line []byte) []byte {
	if len(t.fields) == 1 {
		return t.fields[0]
	}
	return bytes.TrimSpace(line)
}

func (n *classNames) add(name []byte) (int32, error) {
	if err := CheckUTF8("class", name); err != nil {
		return 0, err
	}
	return n.table.Number(name)
}

// CheckUTF8 refuses a text, which noun names, in another encoding.
func CheckUTF8(noun string, text []byte) error {
	if utf8.Valid(text) {
		return nil
	}
	return refusal.Errorf("the %s %.40q is not UTF-8: convert the file, as with iconv -f LATIN1 -t UTF-8", noun, text)
}

// withHeader puts the class of the header first, if it is one.
func (n *classNames) withHeader(a *npy.Array) (*npy.Array, error) {
	ids, err := a.Int64s()
	if err != nil {
		return nil, err
	}
	first, is := n.table.Find(n.header)
	if n.header == nil || !is {
		return npy.New(ids, len(ids)), nil
	}
	if err := memory.Need(8 * int64(len(ids)+1)); err != nil {
		return nil, err
	}
	return npy.New(append([]int64{int64(first)}, ids...), len(ids)+1), nil
}

// ofArray numbers the classes in an array of text with one column. Any other array stays.
func (n *classNames) ofArray(a *npy.Array) (*npy.Array, error) {
	if kind := a.Descr[1]; kind != 'U' && kind != 'S' {
		return a, nil
	}
	if width(a.Shape) != 1 {
		return nil, refusal.Errorf("names of classes of shape %v: give one for each vertex", a.Shape)
	}
	words, err := a.Strings()
	if err != nil {
		return nil, err
	}
	return n.ofWords(words)
}

// ofWords numbers the classes of words.
func (n *classNames) ofWords(words []string) (*npy.Array, error) {
	if err := memory.Need(8 * int64(len(words))); err != nil {
		return nil, err
	}
	n.text = true
	ids := make([]int64, len(words))
	for v, word := range words {
		ids[v] = -1
		if word == "" {
			continue
		}
		id, err := n.add([]byte(word))
		if err != nil {
			return nil, err
		}
		ids[v] = int64(id)
	}
	return npy.New(ids, len(ids)), nil
}

// sorted numbers the classes in the order of their names, as scikit-learn's LabelEncoder.
func (n *classNames) sorted(a *npy.Array) (*LabelRows, error) {
	if !n.text || len(n.table.Names) == 0 {
		return &LabelRows{Array: a}, nil
	}
	ids, err := a.Int64s()
	if err != nil {
		return nil, err
	}
	ascending, to := n.table.Sorted()
	for v, id := range ids {
		if id >= 0 {
			ids[v] = to[id]
		}
	}
	return &LabelRows{Array: npy.New(ids, len(ids)), Names: ascending}, nil
}
