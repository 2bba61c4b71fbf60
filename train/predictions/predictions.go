// Package predictions writes predictions of vertices in the format of a file's ending, and measures them as
// they pass by. The commands that predict, and the server, write by it.
package predictions

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/train/calibrate"
	"weft/train/rundir"
	"weft/train/worker"
)

// Columns says what the columns of predictions stand for.
type Columns int

// What columns stand for.
const (
	Logits        Columns = iota // of classes; a vertex has one
	LabelLogits                  // of labels; a vertex may have several
	Probabilities                // of classes
	Values                       // to predict, in their own units
	Embedding
)

// Table says what rows and columns of predictions stand for.
type Table struct {
	Vertices []int32   // the vertex of each row; nil: row v is vertex v
	Types    []Type    // of the rows, one vertex type after another; nil: vertices of the first type
	Names    []string  // of all vertices of the graph; nil: they have none
	Edges    *EdgeEnds // set if the rows are of edges; "vertex" then means edge above
	Columns  Columns
	Classes  []string // the names of the classes or labels; nil: their numbers
	// Calibration makes the probabilities of logits; nil: softmax, or σ of labels.
	Calibration *calibrate.Calibration
	// Threshold is the probability of class 1, of two, from which on a row has class 1; nil: a row has its
	// likeliest class.
	Threshold *float64
	// Thresholds are, by label, the probability from which on a row has the label; nil: above 0.5.
	Thresholds []float64
	// Answers are what the table says of each vertex, in this order; nil: what it says by default.
	Answers []Answer
	// Embeddings has the embedding of each row's vertex, if Answers has Hidden.
	Embeddings *Kept
	// Before has the rows of an earlier prediction, for the first vertices of the table. The others had none.
	// nil: the table compares with nothing.
	Before *Kept
	Order  Order
	// Plain leaves names in CSV as they are, for a program that reads it: neither a terminal nor a
	// spreadsheet shows it.
	Plain   bool
	singles map[Answer]Key // the answers that are one of several columns, set while rows are written
	scratch string         // rows may wait on disk beside this file; empty: in the folder for temporary files
}

// Type is a vertex type of a table.
type Type struct {
	Name  string
	Count int
	Names []string // of its vertices; nil: they have none
}

// EdgeEnds say what a table of edges has for each edge: the columns of its ends.
type EdgeEnds struct {
	Columns [2]string   // the names of the columns of source and target
	Names   [2][]string // of the vertices of each end; nil: their numbers
	Ends    func(edge int) [2]int32
	// Added says that the graph does not have the edges. In place of their numbers the table has the numbers
	// of the rows from which they were read, from 0.
	Added bool
}

// formats are the formats by their file endings.
var formats = []struct {
	ending string
	write  func(to io.Writer, rows worker.Rows, t *Table) error
}{
	{".npy", func(to io.Writer, rows worker.Rows, _ *Table) error {
		return rundir.EncodePredictions(to, rows)
	}},
	{".csv", writeCSV},
	{".parquet", writeParquet},
}

// IsMatrix reports whether a file holds rows and columns alone, as a NumPy array, and no names or classes.
func IsMatrix(path string) bool { return ending(path) == ".npy" }

// IsCSV reports whether a file holds a table as CSV.
func IsCSV(path string) bool { return ending(path) == ".csv" }

// ending is the ending of a path. A pipe or a device without an ending takes a NumPy array.
func ending(path string) string {
	end := strings.ToLower(filepath.Ext(path))
	if info, err := os.Stat(path); end == "" && err == nil && !info.Mode().IsRegular() {
		return ".npy"
	}
	return end
}

// CheckEnding refuses a file whose ending names no format.
func CheckEnding(flag, path string) error {
	for _, f := range formats {
		if ending(path) == f.ending {
			return nil
		}
	}
	return refusal.Errorf("--%s %s: its ending names the format, and it is .npy (a NumPy array), .csv or "+
		".parquet", flag, path)
}

// Write writes predictions, in the format that the ending names. The file appears under its name when it is
// complete and on disk. A NumPy array has a row per vertex, float32. A table has the columns of
// Table.Answers, and before them vertex, type (if there are several) and name (if vertices have names),
// unless Answers has vertex or name. A table of edges has edge, or row, and the columns of both ends instead,
// unless Answers has some of these, by their names or as source and target:
//
//	class                              the likeliest class
//	probability                        of that class
//	margin                             the largest probability less the second largest
//	entropy                            of the probabilities, in nats
//	probability_CLASS, …               of each class: all probabilities
//	LABEL, …                           of each label: its probability, under its name
//	value, or value_0, value_1, …      of values
//	embedding_0, embedding_1, …        of embeddings
//	one of probability_CLASS, label_0, value_1, …   alone, where Answers names it
//	change                             the largest difference of a probability, or value, to Before
//
// By default a table answers class and probability for classes, and all of labels, values or embeddings. A
// table with Before has further columns with the same of the earlier prediction, but embeddings: old_class,
// old_probability, … They are empty, in Parquet null, if there was none. change may be among the others.
//
// Probabilities are the softmax of logits, σ for labels, or the probabilities of Table.Calibration. Names in
// Parquet are as they are, as in CSV with Table.Plain. In other CSV control characters are escaped as in Go's
// strings, and a name that a spreadsheet would take for a formula has an apostrophe before it.
func Write(path string, rows worker.Rows, t Table) error {
	if err := CheckEnding("out", path); err != nil {
		return err
	}
	t.scratch = path
	return atomicfile.Write(path, func(to io.Writer) error { return Encode(to, ending(path), rows, t) })
}

// Encode is Write to a writer, in the format of an ending: .npy, .csv or .parquet.
func Encode(to io.Writer, ending string, rows worker.Rows, t Table) error {
	for _, f := range formats {
		if ending == f.ending {
			buffered := bufio.NewWriterSize(to, 1<<20)
			if err := f.write(buffered, rows, &t); err != nil {
				return err
			}
			return buffered.Flush()
		}
	}
	return refusal.Errorf("%q names no format of predictions; it is .npy (a NumPy array), .csv or .parquet",
		ending)
}

// column is a column of a table.
type column struct {
	name     string
	kind     kind
	optional bool // a field may be missing
}

// kind is what the fields of a column hold.
type kind int

const (
	number  kind = iota // float32
	integer             // int64
	text
)

// field is the value of a row in a column. kind says which of the other fields holds it.
type field struct {
	missing bool
	text    string
	integer int64
	number  float32
}

// columns are the columns of a table, for rows of so many numbers.
func (t *Table) columns(numbers int) (all []column) {
	for _, a := range t.answers() {
		all = append(all, t.columnsOf(a, numbers)...)
	}
	for _, a := range t.compared() {
		for _, c := range t.columnsOf(a, numbers) {
			all = append(all, column{name: beforePrefix + c.name, kind: c.kind, optional: true})
		}
	}
	return all
}

// columnsOf are the columns of an answer.
func (t *Table) columnsOf(a Answer, numbers int) (all []column) {
	for _, name := range t.numbers(a, numbers) {
		c := column{name: name, kind: number, optional: a == Change}
		switch a {
		case Class, Name, vertexType, sourceEnd, targetEnd:
			c.kind = text
		case Vertex, edgeNumber, edgeRow:
			c.kind = integer
		}
		all = append(all, c)
	}
	return all
}

// named reports whether a table has the names of vertices.
func (t *Table) named() bool {
	return t.Names != nil || slices.ContainsFunc(t.Types, func(typ Type) bool { return typ.Names != nil })
}

// place is the vertex of a row, with its type and name.
func (t *Table) place(row int) (vertex int64, kind, name string) {
	if t.Vertices != nil {
		row = int(t.Vertices[row])
	}
	names := t.Names
	for _, typ := range t.Types {
		kind, names = typ.Name, typ.Names
		if row < typ.Count {
			break
		}
		row -= typ.Count
	}
	if names != nil {
		name = names[row]
	}
	return int64(row), kind, name
}

// each passes the fields of rows to use, in the table's order, until it fails. The next row overwrites the
// fields of the one before.
func (t *Table) each(rows worker.Rows, use func([]field) error) error {
	var (
		fields  []field
		outcome Outcome
		hidden  []float32

		answers, compared = t.answers(), t.compared()
	)
	t.singles = map[Answer]Key{}
	for _, a := range t.Answers {
		if key, single := t.columnOf(a, rows.Columns); single {
			t.singles[a] = key
		}
	}
	if slices.Contains(t.Answers, Hidden) {
		hidden = make([]float32, t.Embeddings.columns)
	}
	return t.inOrder(rows, func(at int, row []float32) error {
		if hidden != nil {
			if err := t.Embeddings.read(at, hidden); err != nil {
				return err
			}
		}
		if err := t.outcome(&outcome, at, row); err != nil {
			return err
		}
		fields = t.compare(t.fields(fields[:0], answers, at, &outcome, hidden), compared, &outcome)
		return use(fields)
	})
}

// fields appends the fields of a row.
func (t *Table) fields(to []field, answers []Answer, at int, outcome *Outcome, hidden []float32) []field {
	vertex, kind, name := t.place(at)
	var ends [2]int32
	if t.Edges != nil {
		ends = t.Edges.Ends(int(vertex))
	}
	for _, a := range answers {
		switch a {
		case sourceEnd:
			to = append(to, field{text: NameOf(t.Edges.Names[0], ends[0])})
		case targetEnd:
			to = append(to, field{text: NameOf(t.Edges.Names[1], ends[1])})
		case Vertex, edgeNumber, edgeRow:
			to = append(to, field{integer: vertex})
		case vertexType:
			to = append(to, field{text: kind})
		case Name:
			to = append(to, field{text: name})
		default:
			to = t.fieldsOf(to, a, outcome, hidden)
		}
	}
	return to
}

// NameOf is the name of a vertex, a class or a label, or its number if there are no names.
func NameOf[Number int | int32](names []string, k Number) string {
	if names == nil {
		return strconv.Itoa(int(k))
	}
	return names[k]
}

// compare appends the fields of the row's earlier prediction.
func (t *Table) compare(to []field, compared []Answer, outcome *Outcome) []field {
	for _, a := range compared {
		if outcome.before != nil {
			to = t.fieldsOf(to, a, outcome.before, nil)
			continue
		}
		from := len(to)
		to = t.fieldsOf(to, a, outcome, nil)
		for k := range to[from:] {
			to[from+k] = field{missing: true}
		}
	}
	return to
}

// fieldsOf appends the fields of an answer.
func (t *Table) fieldsOf(to []field, a Answer, outcome *Outcome, hidden []float32) []field {
	numbers := func(x []float32) {
		for _, x := range x {
			to = append(to, field{number: x})
		}
	}
	single, isSingle := t.singles[a]
	switch {
	case isSingle && single.answer == Value:
		numbers(outcome.row[single.number : single.number+1])
	case isSingle:
		to = append(to, field{number: float32(outcome.Probabilities[single.number])})
	case a == Class && t.Columns == LabelLogits:
		var names []string
		for _, k := range t.Said(outcome) {
			names = append(names, NameOf(t.Classes, k))
		}
		to = append(to, field{text: strings.Join(names, ";")})
	case a == Class:
		to = append(to, field{text: NameOf(t.Classes, outcome.Top)})
	case a == AllProbabilities:
		for _, p := range outcome.Probabilities {
			to = append(to, field{number: float32(p)})
		}
	case a == Value, a == Hidden && t.Columns == Embedding:
		numbers(outcome.row)
	case a == Hidden:
		numbers(hidden)
	default:
		to = append(to, field{number: outcome.Number(a), missing: a == Change && outcome.before == nil})
	}
	return to
}
