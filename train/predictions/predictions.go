// Package predictions writes predictions of vertices in the format that a file's ending names, and measures
// them while they pass by.
package predictions

import (
	"bufio"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/train/rundir"
	"weft/train/worker"
)

// Columns says what the columns of predictions stand for.
type Columns int

// What columns stand for.
const (
	Logits        Columns = iota // of classes, of which a vertex has one
	LabelLogits                  // of labels, of which a vertex may have several
	Probabilities                // of classes
	Values                       // to predict, in their own units
	Embedding
)

// Table says what rows and columns of predictions stand for.
type Table struct {
	Vertices []int32  // the vertex of each row; nil: row v is vertex v
	Types    []Type   // of the rows, those of one vertex type after another; nil: vertices of the first type
	Names    []string // of all vertices of the graph; nil: they have none
	Columns  Columns
	Classes  []string // the names of the classes or labels; nil: their numbers
}

// Type is a vertex type of a table.
type Type struct {
	Name  string
	Count int
	Names []string // of its vertices; nil: they have none
}

// formats are the formats by ending.
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

// ending is that of a path. A pipe or a device without an ending takes a NumPy array.
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
	return refusal.Errorf("%s %s: its ending names the format, and it is .npy (a NumPy array), .csv or "+
		".parquet", refusal.Setting(flag), path)
}

// Write writes predictions, in the format that the ending names. The file appears under its name when it is
// complete and on disk. A NumPy array has a row per vertex, float32. A table has the vertex's number, its
// type if there are several, its name if vertices have names, and then
//
//	class, probability                     of classes: the likeliest one
//	a probability for each label           of labels, under their names
//	value, or value_0, value_1, …          of values
//	embedding_0, embedding_1, …            of embeddings
//
// Probabilities are the softmax of logits, and σ for labels. Control characters of names are escaped as in
// Go's strings, and one that a spreadsheet would take for a formula has an apostrophe before it.
func Write(path string, rows worker.Rows, t Table) error {
	if err := CheckEnding("out", path); err != nil {
		return err
	}
	return atomicfile.Write(path, func(to io.Writer) error { return Encode(to, ending(path), rows, t) })
}

// Encode is Write to a writer, in the format of an ending: .npy, .csv or .parquet.
func Encode(to io.Writer, ending string, rows worker.Rows, t Table) error {
	t.Classes, t.Types = cells(t.Classes), slices.Clone(t.Types)
	for k := range t.Types {
		t.Types[k].Name = cell(t.Types[k].Name)
	}
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

// record is a row of a table.
type record struct {
	vertex  int64
	words   []string // its type, name and class, those of them that the table has
	numbers []float32
}

// hasClass reports whether records have a class.
func (t *Table) hasClass() bool { return t.Columns == Logits || t.Columns == Probabilities }

// numbers are the names of a record's numbers, for rows of so many columns.
func (t *Table) numbers(columns int) []string {
	numbered := func(prefix string) (names []string) {
		for k := range columns {
			names = append(names, prefix+strconv.Itoa(k))
		}
		return names
	}
	switch {
	case t.hasClass():
		return []string{"probability"}
	case t.Columns == LabelLogits && t.Classes != nil && t.distinct():
		return t.Classes
	case t.Columns == LabelLogits:
		return numbered("label_")
	case t.Columns == Values && columns == 1:
		return []string{"value"}
	case t.Columns == Values:
		return numbered("value_")
	}
	return numbered("embedding_")
}

// distinct reports whether the names of the labels can be names of columns beside the vertex and its name.
func (t *Table) distinct() bool {
	names := slices.Sorted(slices.Values(append([]string{vertexColumn, nameColumn, ""}, t.Classes...)))
	return len(slices.Compact(names)) == 3+len(t.Classes)
}

// The first columns of a table.
const (
	vertexColumn = "vertex"
	typeColumn   = "type"
	nameColumn   = "name"
	classColumn  = "class"
)

// header are the names of a table's columns, for rows of so many columns.
func (t *Table) header(columns int) []string {
	return slices.Concat([]string{vertexColumn}, t.words(typeColumn, nameColumn, classColumn),
		t.numbers(columns))
}

// words are those of the three that the table has.
func (t *Table) words(of, name, class string) (words []string) {
	for _, word := range []struct {
		text  string
		there bool
	}{{of, t.Types != nil}, {name, t.named()}, {class, t.hasClass()}} {
		if word.there {
			words = append(words, word.text)
		}
	}
	return words
}

// named reports whether records have names of vertices.
func (t *Table) named() bool {
	return t.Names != nil || slices.ContainsFunc(t.Types, func(of Type) bool { return of.Names != nil })
}

// place is the vertex of a row, with its type and name.
func (t *Table) place(row int) (vertex int64, kind, name string) {
	if t.Vertices != nil {
		row = int(t.Vertices[row])
	}
	names := t.Names
	for _, of := range t.Types {
		kind, names = of.Name, of.Names
		if row < of.Count {
			break
		}
		row -= of.Count
	}
	if names != nil {
		name = cell(names[row])
	}
	return int64(row), kind, name
}

// each passes the records of rows to use, until it fails. The next record overwrites the numbers of the last.
func (t *Table) each(rows worker.Rows, use func(record) error) error {
	at := 0
	numbers := make([]float32, len(t.numbers(rows.Columns)))
	for batch := range rows.Each {
		for row := range slices.Chunk(batch, rows.Columns) {
			vertex, kind, name := t.place(at)
			class := t.predict(numbers, row)
			if err := use(record{vertex, t.words(kind, name, class), numbers}); err != nil {
				return err
			}
			at++
		}
	}
	return nil
}

// predict sets the numbers of a record to those of a row, and returns its class, if it has one.
func (t *Table) predict(numbers, row []float32) (class string) {
	switch t.Columns {
	case LabelLogits:
		for k, z := range row {
			numbers[k] = float32(1 / (1 + math.Exp(-float64(z))))
		}
		return ""
	case Values, Embedding:
		copy(numbers, row)
		return ""
	}
	top := 0
	for k, z := range row {
		if z > row[top] {
			top = k
		}
	}
	if numbers[0] = row[top]; t.Columns == Logits {
		all := 0.
		for _, z := range row {
			all += math.Exp(float64(z) - float64(row[top]))
		}
		numbers[0] = float32(1 / all)
	}
	if t.Classes == nil {
		return strconv.Itoa(top)
	}
	return t.Classes[top]
}
