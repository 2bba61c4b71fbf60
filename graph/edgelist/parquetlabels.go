package edgelist

import (
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"weft/graph/internal/arrays"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// labelColumns are the names of the column of labels in a table that has further ones.
var labelColumns = []string{"label", "labels", "y", "class"}

// labelRows reads the rows of labels, at most so many, in the format that the first bytes show.
func (o *Options) labelRows(most int64, key *arrays.Key) (*arrays.LabelRows, error) {
	f, err := arrays.Open(o.Labels)
	if err != nil {
		return nil, err
	}
	kind := f.Kind
	if err := f.Close(); err != nil || kind != foreign.Parquet {
		return arrays.ReadLabels(o.Labels, most, key, o.meaning())
	}
	file, err := os.Open(o.Labels)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	c := labelColumn{path: o.Labels, most: most, key: key, as: o.meaning()}
	t := parquetTable{path: o.Labels, file: file, size: info.Size(), progress: o.Progress}
	if err := t.read(c.choose, c.read); err != nil {
		return nil, err
	}
	rows, err := c.rows()
	if err != nil {
		return nil, refusal.Errorf("%s: %w", o.Labels, err)
	}
	return rows, nil
}

// labelColumn is a column of labels: names of classes, class ids, or values to predict.
type labelColumn struct {
	path  string
	most  int64
	key   *arrays.Key
	as    arrays.Meaning
	byID  *arrays.RowIDs // nil: row v is vertex v
	kind  parquet.Kind
	words []string
	ids   []int64
	reals []float64
}

// choose finds the only column, or the one with a name of labels, and behind it that of ids, if there is one.
func (c *labelColumn) choose(file *parquet.File) ([]*parquet.Column, error) {
	columns := file.Root().Columns()
	var id *parquet.Column
	if len(columns) > 1 {
		if at := slices.IndexFunc(columns, func(one *parquet.Column) bool { return arrays.IsIDColumn(one.Name()) }); at >= 0 {
			id = columns[at]
		}
		columns = slices.DeleteFunc(slices.Clone(columns), func(one *parquet.Column) bool { return !slices.Contains(labelColumns, one.Name()) })
	}
	if len(columns) != 1 {
		return nil, refusal.Errorf("%s: which column has the labels? Call it label, or leave the others out", c.path)
	}
	one := columns[0]
	if !one.Leaf() || one.Repeated() || !readable(one.Type().Kind(), 0) && !readable(one.Type().Kind(), 2) {
		return nil, refusal.Errorf("%s: column %q does not hold one label per row", c.path, one.Name())
	}
	if c.kind = one.Type().Kind(); c.kind == parquet.ByteArray && c.as == arrays.Values {
		return nil, refusal.Errorf("%s: column %q holds text, and values to predict are numbers; leave %s out for names of classes",
			c.path, one.Name(), refusal.Setting("values"))
	}
	if id == nil {
		return columns, nil
	}
	if !id.Leaf() || id.Repeated() || !readable(id.Type().Kind(), 0) {
		return nil, refusal.Errorf("%s: column %q does not hold one id per row", c.path, id.Name())
	}
	c.byID = arrays.NewRowIDs(c.key)
	return append(columns, id), nil
}

// read reads the rows of a group.
func (c *labelColumn) read(columns []*columnReader, rows, first int64) (err error) {
	if first-1+rows > c.most {
		return refusal.Errorf("%s: more than %d rows, one for each vertex that the graph may have", c.path, c.most)
	}
	for at := first; at < first+rows; at++ {
		v, err := columns[0].nextOrNull()
		if err == nil {
			err = c.add(v)
		}
		if err != nil {
			return refusal.Errorf("%s: row %d: column %q: %w", c.path, at, columns[0].name, err)
		}
		if c.byID == nil {
			continue
		}
		if v, err = columns[1].nextOrNull(); err == nil {
			err = c.byID.Add(idText(v), at)
		}
		if err != nil {
			return refusal.Errorf("%s: row %d: column %q: %w", c.path, at, columns[1].name, err)
		}
	}
	return nil
}

// idText is an id as text; none where it is missing.
func idText(v parquet.Value) []byte {
	switch {
	case v.IsNull():
		return nil
	case v.Kind() == parquet.ByteArray:
		return v.ByteArray()
	}
	return strconv.AppendInt(nil, integer(v), 10)
}

// add keeps a value, or that one is missing.
func (c *labelColumn) add(v parquet.Value) (err error) {
	switch floats := c.kind == parquet.Float || c.kind == parquet.Double; {
	case c.kind == parquet.ByteArray:
		word := ""
		if !v.IsNull() {
			word = string(v.ByteArray())
		}
		c.words, err = memory.Grow(c.words, 1)
		c.words = append(c.words, word)
	case floats || c.as == arrays.Values:
		x := math.NaN()
		if !v.IsNull() && floats {
			x = number(v)
		} else if !v.IsNull() {
			x = float64(integer(v))
		}
		c.reals, err = memory.Grow(c.reals, 1)
		c.reals = append(c.reals, x)
	default:
		id := int64(-1)
		if !v.IsNull() {
			id = integer(v)
		}
		c.ids, err = memory.Grow(c.ids, 1)
		c.ids = append(c.ids, id)
	}
	return err
}

// rows are the labels of the column.
func (c *labelColumn) rows() (_ *arrays.LabelRows, err error) {
	if c.byID == nil {
		return c.inOrder()
	}
	if err := c.byID.Check(); err != nil {
		return nil, err
	}
	if c.words != nil {
		c.words, err = arrays.InOrder(c.byID, c.words, 1)
	}
	if err == nil && c.ids != nil {
		c.ids, err = arrays.InOrder(c.byID, c.ids, 1)
	}
	if err == nil && c.reals != nil {
		c.reals, err = arrays.InOrder(c.byID, c.reals, 1)
	}
	if err != nil {
		return nil, err
	}
	rows, err := c.inOrder()
	if err == nil {
		rows.ByID = true
	}
	return rows, err
}

// inOrder are the labels of vertices in their order.
func (c *labelColumn) inOrder() (*arrays.LabelRows, error) {
	switch {
	case c.kind == parquet.ByteArray:
		return arrays.NamedLabels(c.words)
	case c.reals != nil:
		return &arrays.LabelRows{Array: npy.New(c.reals, len(c.reals)), As: c.as}, nil
	}
	return &arrays.LabelRows{Array: npy.New(c.ids, len(c.ids)), As: c.as}, nil
}
