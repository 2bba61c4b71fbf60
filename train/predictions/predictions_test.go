package predictions

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/require"
	"weft/train/worker"
)

// two rows a batch, as workers pass them.
func rowsOf(columns int, numbers ...float32) worker.Rows {
	return worker.Rows{
		Vertices: len(numbers) / columns, Columns: columns, Each: slices.Chunk(numbers, 2*columns),
	}
}

var tables = []struct {
	name   string
	rows   worker.Rows
	table  Table
	header []string
	cells  [][]any // float64 by the definition
}{
	{
		"classes", rowsOf(3, 0, 1, 0, 3, 3, 1, 200, -200, 100),
		Table{Names: []string{"a", `b "1", x`, ""}, Classes: []string{"cat", "dog", "3,4"}},
		[]string{"vertex", "name", "class", "probability"},
		[][]any{
			{0, "a", "dog", math.E / (2 + math.E)}, // the softmax, of the first of equal logits
			{1, `b "1", x`, "cat", math.Exp(3) / (2*math.Exp(3) + math.Exp(1))},
			{2, "", "cat", 1.},
		},
	},
	{
		"listed", rowsOf(2, 0, 1, 1, 0),
		Table{Vertices: []int32{7, 2}},
		[]string{"vertex", "class", "probability"},
		[][]any{{7, "1", math.E / (1 + math.E)}, {2, "0", math.E / (1 + math.E)}},
	},
	{
		"probabilities", rowsOf(2, .25, .5, .125, .0625),
		Table{Columns: Probabilities},
		[]string{"vertex", "class", "probability"},
		[][]any{{0, "1", .5}, {1, "0", .125}},
	},
	{
		"labels", rowsOf(2, 0, -1, 100, -100),
		Table{Columns: LabelLogits, Classes: []string{"zinc", "arsenic"}},
		[]string{"vertex", "zinc", "arsenic"}, // not sorted
		[][]any{{0, .5, 1 / (1 + math.E)}, {1, 1., 3.8e-44}},
	},
	{
		"labels whose names are no columns", rowsOf(2, 0, 0),
		Table{Columns: LabelLogits, Classes: []string{"vertex", "x"}},
		[]string{"vertex", "label_0", "label_1"},
		[][]any{{0, .5, .5}},
	},
	{
		"names that command", rowsOf(3, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1),
		Table{
			Names:   []string{"\x1b[2J", "@SUM(A1)", "-1.5e3", "-", "سلام\u200cها"},
			Classes: []string{"=HYPERLINK(\"http://x\")", "+7 a", "\t=1\r\n\u009b"},
		},
		[]string{"vertex", "name", "class", "probability"},
		[][]any{
			{0, `\x1b[2J`, `'=HYPERLINK("http://x")`, math.E / (2 + math.E)},
			{1, "'@SUM(A1)", "'+7 a", math.E / (2 + math.E)},
			{2, "-1.5e3", `\t=1\r\n\u009b`, math.E / (2 + math.E)},
			{3, "-", `\t=1\r\n\u009b`, math.E / (2 + math.E)},
			{4, "سلام\u200cها", `\t=1\r\n\u009b`, math.E / (2 + math.E)}, // a joiner is a letter's form
		},
	},
	{
		"labels that command", rowsOf(2, 0, 0),
		Table{Columns: LabelLogits, Classes: []string{"=1+1", "\x1b]0;x\a"}},
		[]string{"vertex", "'=1+1", `\x1b]0;x\a`},
		[][]any{{0, .5, .5}},
	},
	{
		"types that command", rowsOf(1, 0, 1),
		Table{
			Columns: Embedding,
			Types:   []Type{{Name: "=a", Count: 1}, {Name: "b\n", Count: 1, Names: []string{"＝1"}}},
		},
		[]string{"vertex", "type", "name", "embedding_0"},
		[][]any{{0, "'=a", "", 0.}, {0, `b\n`, "'＝1", 1.}},
	},
	{
		"value", rowsOf(1, -2.5, 1e30),
		Table{Columns: Values},
		[]string{"vertex", "value"},
		[][]any{{0, -2.5}, {1, 1e30}},
	},
	{
		"values", rowsOf(2, -2.5, 8),
		Table{Columns: Values},
		[]string{"vertex", "value_0", "value_1"},
		[][]any{{0, -2.5, 8.}},
	},
	{
		"embeddings of several types", rowsOf(1, 0, 1, 2),
		Table{Columns: Embedding, Types: []Type{
			{Name: "item", Count: 1},
			{Name: "tag", Count: 0},
			{Name: "user", Count: 2, Names: []string{"ann", "bob"}},
		}},
		[]string{"vertex", "type", "name", "embedding_0"},
		[][]any{{0, "item", "", 0.}, {0, "user", "ann", 1.}, {1, "user", "bob", 2.}},
	},
	{
		"embeddings", rowsOf(11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
		Table{Columns: Embedding},
		[]string{
			"vertex", "embedding_0", "embedding_1", "embedding_2", "embedding_3", "embedding_4",
			"embedding_5", "embedding_6", "embedding_7", "embedding_8", "embedding_9", "embedding_10",
		},
		[][]any{{0, 0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10.}},
	},
}

// asTheyAre are the names of tables, which Parquet has, by what CSV has in their place.
var asTheyAre = map[string]string{
	`\x1b[2J`: "\x1b[2J", "'@SUM(A1)": "@SUM(A1)", `'=HYPERLINK("http://x")`: `=HYPERLINK("http://x")`,
	"'+7 a": "+7 a", `\t=1\r\n\u009b`: "\t=1\r\n\u009b", "'=1+1": "=1+1", `\x1b]0;x\a`: "\x1b]0;x\a",
	"'=a": "=a", "'=dog": "=dog", `b\n`: "b\n", "'＝1": "＝1",
}

// wanted is what a file of an ending has in the place of a cell of CSV.
func wanted(ending string, cell any) any {
	if name, ok := cell.(string); ok && ending == ".parquet" && asTheyAre[name] != "" {
		return asTheyAre[name]
	}
	return cell
}

func TestTables(t *testing.T) {
	for _, test := range tables {
		for ending, read := range map[string]func(*testing.T, string) ([]string, [][]any){
			".csv":     readCSV,
			".parquet": readParquet,
		} {
			t.Run(test.name+ending, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "p"+ending)
				require.NoError(t, Write(path, test.rows, test.table))
				header, cells := read(t, path)
				for i, is := range header {
					assert.Equal[any](t, wanted(ending, test.header[i]), is, "columns")
				}
				require.Len(t, header, len(test.header), "columns")
				require.Len(t, cells, len(test.cells), "rows")
				for k, row := range cells {
					for i, is := range row {
						want := wanted(ending, test.cells[k][i])
						if x, number := want.(float64); number {
							if got, ok := is.(float64); !ok || math.Abs(got-x) > 1e-7*max(1, math.Abs(x)) {
								t.Errorf("row %d, %s: %v, want %v", k, header[i], is, x)
							}
						} else if !reflect.DeepEqual(is, want) {
							t.Errorf("row %d, %s: %#v, want %#v", k, header[i], is, want)
						}
					}
				}
			})
		}
	}
}

// TestWriteLeavesTheTable: the caller's names stay as they are.
func TestWriteLeavesTheTable(t *testing.T) {
	types, classes := []Type{{Name: "=a", Count: 1}}, []string{"=b"}
	for _, table := range []Table{{Columns: Embedding, Types: types}, {Classes: classes}} {
		require.NoError(t, Write(filepath.Join(t.TempDir(), "p.csv"), rowsOf(1, 0), table))
	}
	assert.Equal(t, "=a", types[0].Name, "types %v, classes %q", types, classes)
	assert.Equal(t, "=b", classes[0], "types %v, classes %q", types, classes)
}

// TestPlainNames: CSV for programs has the names that Parquet has.
func TestPlainNames(t *testing.T) {
	names := []string{"=SUM(A1)", "a\nb", `a\nb`, "'=x", "\x1b,\""}
	table := Table{Columns: LabelLogits, Names: names, Classes: []string{"+y"}, Plain: true}
	path := filepath.Join(t.TempDir(), "p.csv")
	require.NoError(t, Write(path, rowsOf(1, 0, 0, 0, 0, 0), table))
	header, cells := readCSV(t, path)
	assert.Equal(t, []string{"vertex", "name", "+y"}, header)
	for k, row := range cells {
		assert.Equal(t, any(names[k]), row[1])
	}
}

func readCSV(t *testing.T, path string) (header []string, cells [][]any) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, line := range lines[1:] {
		var row []any
		for k, text := range line {
			switch x, err := strconv.ParseFloat(text, 64); {
			case k == 0:
				row = append(row, int(x))
			case err == nil && !slices.Contains([]string{"type", "name", "class", "old_class"}, lines[0][k]):
				row = append(row, x)
			default:
				row = append(row, text)
			}
		}
		cells = append(cells, row)
	}
	return lines[0], cells
}

func readParquet(t *testing.T, path string) (header []string, cells [][]any) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r := parquet.NewGenericReader[any](f)
	defer r.Close()
	for _, column := range r.Schema().Columns() {
		header = append(header, column[0])
	}
	rows := make([]parquet.Row, 8)
	n, _ := r.ReadRows(rows)
	for _, row := range rows[:n] {
		var values []any
		for _, v := range row {
			switch kind := v.Kind(); {
			case v.IsNull():
				values = append(values, "")
			case kind == parquet.Int64:
				values = append(values, int(v.Int64()))
			case kind == parquet.Float:
				values = append(values, float64(v.Float()))
			default:
				values = append(values, v.String())
			}
		}
		cells = append(cells, values)
	}
	return header, cells
}

// Rows of several row groups come back in order.
func TestParquetGroups(t *testing.T) {
	numbers := make([]float32, 3*groupRows+5)
	for k := range numbers {
		numbers[k] = float32(k)
	}
	path := filepath.Join(t.TempDir(), "p.parquet")
	require.NoError(t, Write(path, rowsOf(1, numbers...), Table{Columns: Values}))
	type row struct {
		Vertex int64   `parquet:"vertex"`
		Value  float32 `parquet:"value"`
	}
	rows, err := parquet.ReadFile[row](path)
	require.NoError(t, err)
	require.Len(t, rows, len(numbers))
	for k, r := range rows {
		require.Equal(t, row{int64(k), numbers[k]}, r, "row %d", k)
	}
}

func TestEndings(t *testing.T) {
	for path, good := range map[string]bool{
		"p.npy": true, "p.CSV": true, "p.parquet": true, "/dev/null": true,
		"p.txt": false, "p": false, "p.csv.gz": false, t.TempDir() + "/new": false,
	} {
		if err := CheckEnding("out", path); (err == nil) != good {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What passes by is measured as scikit-learn does the vertices of each part, also of a list in its order.
func TestScorer(t *testing.T) {
	labels := graph.Labels{Classes: 3, Class: []int64{0, 1, 2, 0, -1, 2}}
	split := graph.Split{Train: []int64{0, 3}, Val: []int64{1}, Test: []int64{2, 5}}
	logits := []float32{1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0} // classes 0, 0, 2, 1, 0, 1
	score := func(vertices []int32, rows worker.Rows) [3]float64 {
		c := NewScorer(labels, &split, 6, vertices)
		var passed []float32
		for batch := range c.Watch(rows).Each {
			passed = append(passed, batch...)
		}
		assert.Len(t, passed, rows.Vertices*rows.Columns, "numbers passed by")
		s, err := c.Scores("accuracy")
		require.NoError(t, err)
		return [3]float64{s.Train, s.Val, s.Test}
	}
	assert.Equal(t, [3]float64{.5, 0, .5}, score(nil, rowsOf(3, logits...)))
	// vertices 5, 4 and 0
	got := score([]int32{5, 4, 0}, rowsOf(3, 0, 0, 1, 1, 0, 0, 1, 0, 0))
	if got[0] != 1 || !math.IsNaN(got[1]) || got[2] != 1 {
		t.Errorf("%v, want 1, NaN, 1", got)
	}
}

// TestLastBytes: bytes that are not written are told, also where they are the last ones of a buffer.
func TestLastBytes(t *testing.T) {
	for _, test := range tables {
		for _, format := range formats {
			var whole bytes.Buffer
			require.NoError(t, Encode(&whole, format.ending, test.rows, test.table))
			for _, room := range []int{0, whole.Len() - 1} {
				assert.ErrorIs(t, Encode(&limited{room}, format.ending, test.rows, test.table), errNoRoom,
					"%s%s of %d bytes, and %d are written", test.name, format.ending, whole.Len(), room)
			}
			assert.NoError(t, Encode(&limited{whole.Len()}, format.ending, test.rows, test.table),
				"%s%s with just enough room", test.name, format.ending)
		}
	}
}

var errNoRoom = errors.New("no room")

// limited is a writer that takes so many bytes.
type limited struct{ room int }

func (l *limited) Write(p []byte) (n int, err error) {
	if n = min(len(p), l.room); n < len(p) {
		err = errNoRoom
	}
	l.room -= n
	return n, err
}

func TestLastByteOfAFile(t *testing.T) {
	fulldisk.LastByte(t, func(dir string) error {
		return Write(filepath.Join(dir, "p.npy"), tables[0].rows, tables[0].table)
	})
}
