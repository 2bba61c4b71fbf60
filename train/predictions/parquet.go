package predictions

import (
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"weft/train/worker"
)

// groupRows are the rows of a row group, which the writer holds in memory.
const groupRows = 1 << 17

// writeParquet writes a table as Parquet: the vertex as int64, types, names and classes as strings, numbers
// as float.
func writeParquet(to io.Writer, rows worker.Rows, t *Table) error {
	columns := inOrder{parquet.Group{}, t.header(rows.Columns)}
	for k, name := range columns.names {
		switch {
		case name == vertexColumn:
			columns.Group[name] = parquet.Leaf(parquet.Int64Type)
		case k < len(columns.names)-len(t.numbers(rows.Columns)):
			columns.Group[name] = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
		default:
			columns.Group[name] = parquet.Leaf(parquet.FloatType)
		}
	}
	w := parquet.NewGenericWriter[any](to, parquet.NewSchema("predictions", columns),
		parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(groupRows))
	row := make(parquet.Row, 0, len(columns.names))
	add := func(v parquet.Value) { row = append(row, v.Level(0, 0, len(row))) }
	err := t.each(rows, func(r record) error {
		row = row[:0]
		add(parquet.Int64Value(r.vertex))
		for _, word := range r.words {
			add(parquet.ByteArrayValue([]byte(word)))
		}
		for _, x := range r.numbers {
			add(parquet.FloatValue(x))
		}
		_, err := w.WriteRows([]parquet.Row{row})
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// inOrder is a group whose fields come in the order of their names in a list, and not sorted.
type inOrder struct {
	parquet.Group
	names []string
}

// Fields implements parquet.Node.
func (g inOrder) Fields() []parquet.Field {
	fields := g.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int {
		return slices.Index(g.names, a.Name()) - slices.Index(g.names, b.Name())
	})
	return fields
}
