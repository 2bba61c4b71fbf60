package predictions

import (
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// kept are rows of an earlier prediction.
func kept(t *testing.T, columns int, numbers ...float32) *Kept {
	t.Helper()
	k, err := Keep("")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	for range k.Watch(rowsOf(columns, numbers...)).Each {
	}
	require.NoError(t, k.Err())
	return k
}

// TestBefore: a table has what was predicted before beside what is predicted, and nothing for rows that are
// new. The numbers are computed in double precision by Python's math.
func TestBefore(t *testing.T) {
	before := kept(t, 3, -.75, -.5, -1, 3, 2, 1, 2, -1.25, .5)
	rows := []float32{-.75, -.5, -1, 3, 3, 1, .5, -1.25, 2, 1, 0, 0}
	table := Table{
		Vertices: []int32{2, 4, 5, 9}, Classes: []string{"cat", "dog", "fox"}, Before: before,
		Answers: []Answer{Class, Change, Probability},
	}
	for _, c := range []struct {
		ending, by string
		read       func(*testing.T, string) ([]string, [][]any)
	}{{".csv", "change", readCSV}, {".parquet", "change", readParquet}, {".csv", "-change", readCSV}} {
		ending := c.ending
		table.Order.By = c.by
		path, turned := t.TempDir()+"/p"+ending, 0
		_, err := table.Check(3)
		require.NoError(t, err)
		require.NoError(t, Write(path, table.Turned(rowsOf(3, rows...), &turned), table))
		assert.Equal(t, 1, turned)
		header, cells := c.read(t, path)
		assert.Equal(t, []string{"vertex", "class", "change", "probability", "old_class", "old_probability"},
			header)
		want := [][]any{
			{5, "fox", .615632895458675, .7924530775661193, "cat", .7924530775661193},
			{4, "cat", .22358205977868353, .4683105308334812, "cat", .6652409557748218},
			{2, "dog", 0., .4192289516096977, "dog", .4192289516096977},
			{9, "cat", "", .5761168847658291, "", ""},
		}
		if c.by == "-change" {
			slices.Reverse(want[:3]) // what has none stays last
		}
		require.Len(t, cells, len(want))
		for k, row := range want {
			for i, is := range row {
				if x, number := is.(float64); number {
					assert.Near(t, x, cells[k][i].(float64), 1e-7, "%s: row %d, %s", ending, k, header[i])
				} else {
					assert.Equal(t, is, cells[k][i], "%s: row %d, %s", ending, k, header[i])
				}
			}
		}
	}
}

// TestBeforeOfLabels: labels and values are compared, too. Where a label has the name of another column, the
// columns of labels have numbers.
func TestBeforeOfLabels(t *testing.T) {
	path := t.TempDir() + "/p.csv"
	for _, other := range []string{"old_x", "change", "y"} {
		labels := Table{
			Columns: LabelLogits, Before: kept(t, 2, .5, -2), Classes: []string{"x", other},
			Answers: []Answer{AllProbabilities, Change},
		}
		_, err := labels.Check(2)
		require.NoError(t, err)
		require.NoError(t, Write(path, rowsOf(2, 1, -2), labels))
		header, cells := readCSV(t, path)
		want := []string{"vertex", "label_0", "label_1", "change", "old_label_0", "old_label_1"}
		if other == "y" { // whose name no other column has
			want = []string{"vertex", "x", "y", "change", "old_x", "old_y"}
		}
		assert.Equal(t, want, header)
		for k, want := range []float64{
			.7310585786300049, .11920292202211755, .1085992474281503,
			.6224593312018546,
		} {
			assert.Near(t, want, cells[0][k+1].(float64), 1e-7)
		}
	}
	values := Table{Columns: Values, Before: kept(t, 1, -3), Answers: []Answer{Value, Change}}
	require.NoError(t, Write(path, rowsOf(1, 1.5), values))
	header, cells := readCSV(t, path)
	assert.Equal(t, []string{"vertex", "value", "change", "old_value"}, header)
	assert.Equal(t, [][]any{{0, 1.5, 4.5, -3.}}, cells)
	alone := Table{Answers: []Answer{Change}}
	_, err := alone.Check(2)
	assert.Refused(t, err, "change: compares with the predictions before an addition; give "+
		"--changed, too")
}
