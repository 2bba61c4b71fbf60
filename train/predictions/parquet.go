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
	columns := t.columns(rows.Columns)
	schema := inOrder{Group: parquet.Group{}}
	for _, c := range columns {
		leaf := parquet.Leaf(parquet.FloatType)
		switch c.kind {
		case text:
			leaf = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
		case integer:
			leaf = parquet.Leaf(parquet.Int64Type)
		}
		if c.optional {
			leaf = parquet.Optional(leaf)
		}
		schema.Group[c.name], schema.names = leaf, append(schema.names, c.name)
	}
	w := parquet.NewGenericWriter[any](to, parquet.NewSchema("predictions", schema),
		parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(groupRows))
	row := make(parquet.Row, len(columns))
	err := t.each(rows, func(fields []field) error {
		for k, f := range fields {
			v := parquet.FloatValue(f.number)
			defined := 0
			switch kind := columns[k].kind; {
			case f.missing:
				v = parquet.NullValue()
			case kind == text:
				v = parquet.ByteArrayValue([]byte(f.text))
			case kind == integer:
				v = parquet.Int64Value(f.integer)
			}
			if columns[k].optional && !f.missing {
				defined = 1
			}
			row[k] = v.Level(0, defined, k)
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
