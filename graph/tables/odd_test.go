package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
)

// became says what became of a column.
func became(t *columns.Table, name string) string {
	if k, there := t.Columns.Places()[name]; there {
		c := t.Columns[k]
		return strings.TrimSuffix(string(c.Kind)+" "+strings.Join(c.Categories, "|"), " ")
	}
	for _, c := range t.LeftOut {
		if c.Name == name {
			return c.Why
		}
	}
	return ""
}

// TestOdd: tables as people have them are read as pandas.read_csv reads them, with sep=";" and decimal=","
// where they have these. What may have two meanings is left out, and the reason says so.
func TestOdd(t *testing.T) {
	for _, c := range []struct {
		what, text string
		ids        string
		x          string // what became of column x
		features   []float32
	}{
		{
			"separators and quotes in quotes", "id,x\na,\"Rome, It\"\nb,\"\"\"hi\"\"\"\n", "a b",
			`category "hi"|Rome, It`,
			[]float32{0, 1, 1, 0},
		},
		{
			"line breaks in quotes", "id,x\n\"a\",\"1\n\n2\"\r\nb,\"3\r\n\"\"4\"\"\"\n", "a b",
			"category 1\n\n2|3\n\"4\"",
			[]float32{1, 0, 0, 1},
		},
		{
			"a line break in the header", "id,\"p\nq\",x\na,1,2\nb,3,4\n", "a b", "number",
			[]float32{1, 2, 3, 4},
		},
		{
			"spaces around and in quotes", "id,x\n\" a\", Rome\nb ,\" Rome\t\"\n", "a b", "category Rome",
			[]float32{1, 1},
		},
		{"a comma in a name", "id;net, a year;x\na;1;2\nb;3;4\n", "a b", "number", []float32{1, 2, 3, 4}},
		{"commas in the name of one", "id\tx, y, z\na\t1\nb\t2\n", "a b", "", []float32{1, 2}},
		{
			"commas in each line", "id;x, y\na;1,5\nb;3,25\n", "a b", "",
			[]float32{1.5, 3.25},
		},
		{"a semicolon in a name", "id,y;z,x\na,1,2\nb,3,4\n", "a b", "number", []float32{1, 2, 3, 4}},
		{"commas in quotes", "\"id, of\";x\n\"a\";1\n\"b\";2\n", "a b", "number", []float32{1, 2}},
		{"returns at the end", "id,x\r\r\na,1\r\r\nb,\"2\"\r\r\n", "a b", "number", []float32{1, 2}},
		{"a quote in a field", "id,x\na,5\" disk\nb,2\n", "a b", `category 2|5" disk`, []float32{0, 1, 1, 0}},
		{"a byte order mark", "\xef\xbb\xbfid,x\r\na,1\r\nb,2\r\n", "a b", "number", []float32{1, 2}},
		{"decimal commas", "id;x\na;3,5\nb;-2\n", "a b", "number", []float32{3.5, -2}},
		{"commas and points", "id;x\na;3,5\nb;1.234\n", "a b", "category 1.234|3,5", []float32{0, 1, 1, 0}},
		{
			"commas of thousands", "id,x\na,\"1,234\"\nb,\"5,678\"\n", "a b", "category 1,234|5,678",
			[]float32{1, 0, 0, 1},
		},
		{
			"ids that are no comments", "id,x\n#a,1\n%b,2\na,3\nb,4\n", "#a %b a b", "number",
			[]float32{1, 2, 3, 4},
		},
		{"a header that is no comment", "#id,x\na,1\nb,2\n", "a b", "number", []float32{1, 2}},
		{"empty lines", "id,x\n\na,1\n \n\nb,2\n\n", "a b", "number", []float32{1, 2}},
		{"separators at the end", "id,x\na,1,\nb,2,,\n", "a b", "number", []float32{1, 2}},
		{"pandas' index", ",id,x\n0,a,1\n1,b,2\n", "a b", "number", []float32{1, 2}},
		{"pandas' index is the id", ",x\na,1\nb,2\n", "a b", "number", []float32{1, 2}},
		{
			"words for missing", "id,x\na,1\nb,NaN\nc,NULL\nd,None\ne,-nan\nf,#N/A N/A\ng,-1.#QNAN\n",
			"a b c d e f g", "number",
			[]float32{1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		},
		{"a dash", "id,x\na,1\nb,-\n", "a b", "category -|1", []float32{0, 1, 1, 0}},
		{
			"infinity", "id,x\na,1\nb,-inf\n", "a b",
			"“-inf” in row 2 is not finite in float32: leave the field empty", nil,
		},
		{
			"more than float64 holds", "id,x\na,1e400\nb,1\n", "a b",
			"“1e400” in row 1 is not finite in float32: leave the field empty", nil,
		},
		{"numbers of Go alone", "id,x\na,1_0\nb,0x1p4\n", "a b", "category 0x1p4|1_0", []float32{0, 1, 1, 0}},
		{"dates with slashes", "id,x\na,1970/01/02\nb,1970/02/01\n", "a b", "date", []float32{1, 31}},
		{
			"times of all kinds", "id,x\na,1970-01-02T12:00\nb,1970-01-02 12:00:00.5Z\nc,1970-01-02 " +
				"12:00:00+00\nd,1970-01-02T12:00:00.000000+1200\ne,1970-01-02 12:00:00-12:00\n",
			"a b c d e", "date",
			[]float32{1.5, 1.5, 1.5, 1, 2},
		},
		{
			"days first", "id,x\na,2.1.1970\nb,02/01/70 12:00\nc,31-01-1970\n", "a b c", "date",
			[]float32{1, 1.5, 30},
		},
		{"truth", "id,x\na,TRUE\nb,No\n", "a b", "boolean", []float32{1, 0}},
		{"one column", "id\na\nNew York\n", "a New York", "", nil},
		{
			"long text", "id,x\na," + strings.Repeat("y", 300) + "\nb,z\n", "a b",
			"it is text of more than 256 bytes, as “" + strings.Repeat("y", 30) + "…”", nil,
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			files(t,
				map[string]string{"v.csv": c.text, "e.csv": "src,dst\n" + strings.Fields(c.ids)[0] + ",b\n"})
			if c.what == "one column" {
				require.NoError(t, os.WriteFile("e.csv", []byte("src,dst\na,New York\n"), 0o600))
			}
			g := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}})
			assert.Equal(t, c.ids, strings.Join(g.Types[0].Names, " "))
			assert.Equal(t, c.x, became(g.Types[0].Table, "x"))
			assert.Equal(t, c.features, g.Types[0].Features.Dense)
		})
	}
}

// TestTrimmed: ids and values of Parquet are those of the same table as CSV.
func TestTrimmed(t *testing.T) {
	type row struct {
		ID   string `parquet:"id"`
		City string `parquet:"city"`
	}
	files(t, map[string]string{
		"e.csv": "src,dst\na,b c\n", "v.csv": "id,city\n a, Rome\nb c\t,Rome\t\n",
		"cr.csv": "src,dst\na\rb,a\n",
	})
	require.NoError(t, parquet.WriteFile("v.parquet", []row{{" a", " Rome"}, {"b c\t", "Rome\r\n"}}))
	for _, path := range []string{"v.csv", "v.parquet"} {
		g := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{path}})
		assert.Equal(t, []string{"a", "b c"}, g.Types[0].Names)
		assert.Equal(t, []float32{1, 1}, g.Types[0].Features.Dense)
	}
	s, err := Open(Options{Edges: []string{"cr.csv"}, Vertices: []string{"v.csv"}})
	require.NoError(t, err)
	_, err = s.Read()
	refused(t, err, `cr.csv:2: a line ends as those of old Macs: convert the file, as with tr '\r' '\n'`)
}

// TestOddValue: one value among ten that is not of the column's kind is missing, and named, when the table is
// imported and when it is read like that import; two are refused then.
func TestOddValue(t *testing.T) {
	rows, want := "id,x\n", []float32(nil)
	for i := range 10 {
		rows, want = rows+fmt.Sprintf("%c,%d\n", 'a'+i, i), append(want, float32(i), 0)
	}
	files(t, map[string]string{
		"v.csv": rows + "k,?\n", "more.csv": rows + "k,?\nl,!\n", "e.csv": "src,dst\na,b\n",
	})
	o := Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}}
	first := read(t, o)
	o.Like = LikeGraph(first)
	for _, g := range []*graph.Graph{first, read(t, o)} {
		assert.Equal(t, append(want, 4.5, 1), g.Types[0].Features.Dense)
		assert.Equal(t, []string{"v.csv: column x: “?” in row 11 is no number, and counts as missing"}, g.Notes)
	}
	o.Vertices = []string{"more.csv"}
	_, err := Open(o)
	refused(t, err, `more.csv:12: column x: "?" is no number: correct it, or leave the field empty`)
}

// TestHeadedEdges: an id that begins with # is lost in no list whose columns have names; a list without names
// may have comments.
func TestHeadedEdges(t *testing.T) {
	for edges, want := range map[string]string{
		"# by hand\nsrc,dst\n#a,b\nb,#a\n":           "#a b",
		"# by hand\nb,c\n# more\nc,b\n":              "#a b c",
		"src,\"p\nq\",dst\n#a,1,b\n\"\"b,2,\"#\"a\n": "#a b", // a line break in a name
	} {
		files(t,
			map[string]string{
				"v.csv": "id,x\n#a,1\nb,2\n" + map[bool]string{true: "c,3\n"}[want == "#a b c"],
				"e.csv": edges,
			})
		g := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}})
		assert.Equal(t, want, strings.Join(g.Types[0].Names, " "))
		assert.Equal(t, 2, len(g.Relations[0].Sources))
	}
}

// TestPyArrow: columns of all types are read as pandas.read_parquet reads them; those without a value in each
// row are named. testdata/columns.py wrote the files.
func TestPyArrow(t *testing.T) {
	folder, err := filepath.Abs("testdata")
	require.NoError(t, err)
	files(t, map[string]string{"e.csv": "src,dst\na,b\n"})
	g := read(t,
		Options{Edges: []string{"e.csv"}, Vertices: []string{filepath.Join(folder, "pyarrow.parquet")}})
	const day, two = 19388, 1 << 16 // 2023-01-31
	assert.Equal(t, []float32{
		// i8, u32, u64, f64, bool, text, large, dictionary, date, seconds, zone, decimal
		1, 0, 1, 1, 1e10, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, day, day + .5, day + .5, 1.25, 0,
		-2, 0, 4e9, two * two * two * two, 5e9 + 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 1, day,
		day + .5, day + .5, -.5, 0,
		-.5, 1, 3, 3, 2, 0, .5, 1, 0, 0, 1, 1, 0, 1, 0, day, day + .5, day + .5, .375, 1,
	}, g.Types[0].Features.Dense)
	const why = "its Parquet type is not read, as of lists, structures and bytes"
	assert.Equal(t, []columns.LeftOut{
		{Name: "half", Why: why},
		{Name: "list", Why: why},
		{Name: "struct", Why: why},
		{Name: "bytes", Why: "its text is not UTF-8"},
		{Name: "nulls", Why: "it has no value"},
	}, g.Types[0].Table.LeftOut)
	for setting, want := range map[string]string{
		"label": "column nulls: no row has a label", "weights": `row 1: column nulls: "" is no finite number`,
		"edge label": "column nulls: no row has a label", "source": "row 1: source: the id is empty",
	} {
		list := filepath.Join(folder, "pyarrow.parquet")
		o := Options{
			Edges: []string{list}, Vertices: []string{list},
			Source: []string{"id"}, Target: []string{"large"},
		}
		switch setting {
		case "label":
			o.Label = "nulls"
		case "weights":
			o.EdgeWeights = "nulls"
		case "edge label":
			o.EdgeLabel = "nulls"
		default:
			o.Source = []string{"nulls"}
		}
		s, err := Open(o)
		if err == nil {
			_, err = s.Read()
		}
		assert.Refused(t, err, want, setting)
	}
	g = read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{filepath.Join(folder, "int96.parquet")}})
	assert.Equal(t, []float32{day + .5, day + .5, day + .5}, g.Types[0].Features.Dense)
}

// TestNulls: a part file whose columns have no value, and so Arrow's type of nothing, has gaps where others
// have numbers and text.
func TestNulls(t *testing.T) {
	type row struct {
		ID   string  `parquet:"id"`
		X    float64 `parquet:"x"`
		City string  `parquet:"city"`
	}
	nulls, err := os.ReadFile("testdata/nulls.parquet")
	require.NoError(t, err)
	whole := tableOf(t, []row{{"a", 1, "Rome"}, {"b", 3, "Oslo"}})
	for name, parts := range map[string][2]string{
		"first": {string(nulls), whole}, "last": {whole, string(nulls)},
	} {
		files(t, map[string]string{
			"v/0.parquet": parts[0], "v/1.parquet": parts[1], "e.csv": "source,target\na,b\n",
		})
		g := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v"}})
		some := map[string][]float32{}
		for v, id := range g.Types[0].Names {
			some[id] = g.Types[0].Features.Dense[5*v : 5*v+5]
		}
		assert.Equal(t, map[string][]float32{ // x, its mark, Oslo, Rome, their mark
			"a": {1, 0, 0, 1, 0}, "b": {3, 0, 1, 0, 0}, "d": {2, 1, 0, 0, 1}, "e": {2, 1, 0, 0, 1},
		}, some, name)
	}
}

// TestWideTable: the work grows with the number of columns, and not with its square, which would be 10¹⁰
// steps here.
func TestWideTable(t *testing.T) {
	var like columns.List
	header, row := []byte("id"), "a"+strings.Repeat(",1", 100_000)
	for k := range 100_000 {
		like = append(like, columns.Column{Name: fmt.Sprint("x", k), Kind: columns.Number})
		header = append(header, ","+like[k].Name...)
	}
	files(t, map[string]string{"v.csv": string(header) + "\n" + row + "\n", "e.csv": "source,target\na,a\n"})
	s, err := Open(Options{
		Edges: []string{"e.csv"}, Vertices: []string{"v.csv"},
		Like: &Like{Columns: columns.ByType{graph.VertexName: like}},
	})
	require.NoError(t, err)
	g, err := s.Read()
	require.NoError(t, err)
	assert.Equal(t, 100_000, g.Types[0].Features.Columns)
}

// TestManyNotes: the first warnings about columns are told, and how many more there are.
func TestManyNotes(t *testing.T) {
	header, row := "id", "a"
	for k := range 300 {
		header, row = header+fmt.Sprint(",x", k), row+",02/01/2026"
	}
	files(t, map[string]string{"v.csv": header + "\n" + row + "\n", "e.csv": "source,target\na,a\n"})
	notes := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}}).Warnings
	require.Len(t, notes, 21)
	assert.Contains(t, notes[19], "v.csv: column x19: dates as “02/01/2026” do not say which number is the day")
	assert.Equal(t, "v.csv: and 280 more columns of which such is to be told", notes[20])
}
