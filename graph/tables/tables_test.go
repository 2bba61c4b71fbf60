package tables

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// files writes files into a folder of the test, in which it goes on.
func files(t *testing.T, all map[string]string) {
	t.Helper()
	t.Chdir(graphtest.Files(t, all))
}

// read reads a graph in memory and by way of a store, which must be the same.
func read(t *testing.T, o Options) *graph.Graph {
	t.Helper()
	if o.Choices.Most == 0 {
		o.Choices.Most = 10
	}
	return streamedtest.Same(t, func() (*streamed.Graph, error) { return Open(o) })
}

var small = map[string]string{
	"people.csv": "name,age,city,member,since,class,comment\n" +
		"ann,30,Rome,yes,1970-01-03,b,x1\n" +
		"bob,,Paris,no,1970-01-02,a,x2\n" +
		"\"cy, jr\",50,,yes,1970-01-04,,x3\n",
	"knows.csv": "payer,when,payee,much\nann,1,bob,2.5\n\"cy, jr\",2,ann,1\ndan,3,bob,.5\nann,4,bob,8\n",
}

// TestNamed: a name stands before = or, where the rest is a file, before a colon, unless all of it is a file.
func TestNamed(t *testing.T) {
	files(t, map[string]string{"new.csv": "", "day=1.csv": "", "at:new.csv": "", "12:30.csv": ""})
	for argument, want := range map[string][2]string{
		"new.csv":          {"new", "new.csv"},
		"users=new.csv":    {"users", "new.csv"},
		"users:new.csv":    {"users", "new.csv"},
		"users=gone.csv":   {"users", "gone.csv"},
		"users:gone.csv":   {"users:gone", "users:gone.csv"},
		"users:-":          {"users", "-"},
		"day=1.csv":        {"day=1", "day=1.csv"},
		"at:new.csv":       {"at:new", "at:new.csv"},
		"12:30.csv":        {"12:30", "12:30.csv"},
		"users=at:new.csv": {"users", "at:new.csv"},
		"users:day=1.csv":  {"users", "day=1.csv"},
		"./users:new.csv":  {"users:new", "./users:new.csv"},
		":new.csv":         {":new", ":new.csv"},
	} {
		name, path := Named(argument)
		assert.Equal(t, want, [2]string{name, path}, argument)
	}
}

// way ends a note of columns that were left out.
const way = "; an import takes numbers with --edge-weights, and numbers, dates and truth values with --edge-features"

// TestOneType: ids are numbered by the table, further ones after it; columns become features.
func TestOneType(t *testing.T) {
	files(t, small)
	o := Options{
		Edges: []string{"knows.csv"}, Vertices: []string{"people.csv"}, Source: []string{"payer"},
		Target: []string{"payee"}, Label: "class", LeaveOut: []string{"comment"},
	}
	g := read(t, o)
	assert.Equal(t, []string{"ann", "bob", "cy, jr", "dan"}, g.Types[0].Names)
	r := g.Relations[0]
	assert.Equal(t, []int64{0, 1, 4, 4, 4}, r.Indptr)
	assert.Equal(t, []int32{2, 0, 0, 3}, r.Sources)
	assert.Equal(t, graph.Labels{Classes: 2, Class: []int64{1, 0, -1, -1}, Names: []string{"a", "b"}},
		g.Types[0].Labels)
	third := float32(2. / 3)
	assert.Equal(t, []float32{
		30, 0, 0, 1, 0, 1, 0, 2, 0, // age, missing; Paris, Rome, missing; member, missing; since, missing
		40, 1, 1, 0, 0, 0, 0, 1, 0,
		50, 0, 0, 0, 1, 1, 0, 3, 0,
		40, 1, 0, 0, 1, third, 1, 2, 1,
	}, g.Types[0].Features.Dense)
	assert.Equal(t, 9, g.Types[0].Features.Columns)
	assert.Equal(t, &columns.Table{
		Path: "people.csv", ID: "name", Label: "class",
		Columns: columns.List{
			{Name: "age", Kind: columns.Number, Mean: 40, Gaps: true, Missing: 2},
			{
				Name: "city", Kind: columns.Category, Categories: []string{"Paris", "Rome"},
				Counts: []int64{1, 1}, Gaps: true, Missing: 2,
			},
			{Name: "member", Kind: columns.Boolean, Mean: third, Gaps: true, Missing: 1},
			{Name: "since", Kind: columns.Date, Mean: 2, Gaps: true, Missing: 1},
		},
		LeftOut: []columns.LeftOut{{Name: "comment", Why: "as asked"}},
	}, g.Types[0].Table)
	assert.Equal(t, []string{
		"1 of 4 vertices are ends of edges without a row in people.csv: all their values are missing, as " +
			`of "dan"`,
		"knows.csv: columns left out: when, much" + way,
	}, g.Notes)

	o.EdgeWeights, o.EdgeFeatures = "much", []string{"when"}
	g = read(t, o)
	assert.Equal(t, []float32{1, 2.5, 8, .5}, g.Relations[0].Weights)
	assert.Equal(t, []float32{2, 1, 4, 3}, g.Relations[0].Features.Dense)
}

// TestLike: features are made as those of another table, whatever this one holds.
func TestLike(t *testing.T) {
	files(t, small)
	o := Options{
		Edges: []string{"knows.csv"}, Vertices: []string{"people.csv"}, Source: []string{"payer"},
		Target: []string{"payee"},
	}
	o.Like = &Like{Columns: columns.ByType{graph.VertexName: {
		{Name: "city", Kind: columns.Category, Categories: []string{"Berlin", "Rome"}},
		{Name: "age", Kind: columns.Number, Mean: 7},
	}}}
	g := read(t, o)
	assert.Equal(t, []float32{0, 1, 30, 0, 0, 7, 0, 0, 50, 0, 0, 7}, g.Types[0].Features.Dense)
	assert.Equal(t, columns.List{
		{
			Name: "city", Kind: columns.Category, Categories: []string{"Berlin", "Rome"},
			Counts: []int64{0, 1},
			Other:  1, Missing: 2,
		},
		{Name: "age", Kind: columns.Number, Mean: 7, Missing: 2},
	}, g.Types[0].Table.Columns)
	o.Like.Columns[graph.VertexName][1].Name = "weight"
	_, err := Open(o)
	refused(t, err, `people.csv: there is no column weight; people.csv has "name", "age", "city", "member", `+
		`"since", "class", "comment"`)
}

// TestEndsFound: the only two columns that hold ids are the ends.
func TestEndsFound(t *testing.T) {
	files(t, map[string]string{"v.csv": "id,x\na,1\nb,2\n", "e.csv": "w,from whom,to whom\n3,b,a\n4,b,b\n"})
	g := read(t, Options{
		Edges: []string{"e.csv"}, Vertices: []string{"v.csv"},
		Choices: columns.Choices{Most: 3},
	})
	assert.Equal(t, [2]string{"from whom", "to whom"}, g.Relations[0].EndColumns)
	assert.Equal(t, []int64{0, 1, 2}, g.Relations[0].Indptr)
	assert.Equal(t, []int32{1, 1}, g.Relations[0].Sources)
	assert.Equal(t, []string{
		"e.csv: the columns with ids of vertices are from whom and to whom, taken " +
			"for source and target; --source and --target name others",
		"e.csv: columns left out: w" + way,
	}, g.Notes)
	// One that was an end of the graph's is still this one, and what the other one is now is not guessed.
	files(t, map[string]string{"more.csv": "other,from whom\na,b\n"})
	_, err := Add(Options{Edges: []string{"more.csv"}}, g)
	refused(t, err, `more.csv:1: the columns are "other", "from whom", and which are the ends of an edge? `+
		"Name them with --source and --target")
}

// TestOneMeaning: of two columns with known names of an end the first is taken beside tables.
func TestOneMeaning(t *testing.T) {
	files(t, map[string]string{"v.csv": "id,x\n1,1\n2,2\n3,5\n", "e.csv": "source,target,v\n1,2,3\n"})
	g := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}})
	assert.Equal(t, [2]string{"source", "target"}, g.Relations[0].EndColumns)
	assert.Equal(t, []int32{0}, g.Relations[0].Sources)
	assert.Equal(t, []int64{0, 0, 1, 1}, g.Relations[0].Indptr)
	twice, err := Open(Options{
		Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeFeatures: []string{"v", "v"},
	})
	if err == nil {
		_, err = twice.Read()
	}
	refused(t, err, `e.csv:1: the column "v" is given twice: name each column once`)
}

// TestLeftOutLabel: what is left out is not the label, and is told in the order of the columns.
func TestLeftOutLabel(t *testing.T) {
	files(t, map[string]string{"v.csv": "id,b,x,d\n1,0,1,7\n2,1,2,8\n", "e.csv": "source,target\n1,2\n"})
	g := read(t, Options{
		Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, Label: "b", LeaveOut: []string{"d", "b", "x"},
	})
	assert.Equal(t, []int64{0, 1}, g.Types[0].Labels.Class)
	asked := []columns.LeftOut{{Name: "x", Why: "as asked"}, {Name: "d", Why: "as asked"}}
	assert.Equal(t, asked, g.Types[0].Table.LeftOut)
}

// TestIndex: the index that pandas writes before the columns, without a name, is no end of an edge.
func TestIndex(t *testing.T) {
	files(t, map[string]string{"v.csv": ",id,x\n0,0,1\n1,1,2\n", "e.csv": ",source,target\n0,1,0\n1,1,0\n"})
	g := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}})
	assert.Equal(t, []int32{1, 1}, g.Relations[0].Sources)
	assert.Equal(t, []int64{0, 2, 2}, g.Relations[0].Indptr)
	assert.Equal(t, []string{
		"e.csv: columns left out: Unnamed: 0" + way,
	}, g.Notes)
}

// TestLabels: text is a class, and so are whole numbers, in their order; other numbers are values.
func TestLabels(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		column string
		values bool
		want   graph.Labels
	}{
		{"10,9,,10", false, graph.Labels{
			Classes: 2, Class: []int64{1, 0, -1, 1},
			Names: []string{"9", "10"},
		}},
		{"10,9,,10", true, graph.Labels{Columns: 1, Values: []float32{10, 9, nan, 10}}},
		{"1.5,NaN,-2,0", false, graph.Labels{Columns: 1, Values: []float32{1.5, nan, -2, 0}}},
		{"0,-1,1.0,0", false, graph.Labels{
			Classes: 2, Class: []int64{0, -1, 1, 0}, Names: []string{"0", "1.0"},
		}},
		{"1,-1,1,-1", false, graph.Labels{
			Classes: 2, Class: []int64{1, 0, 1, 0}, Names: []string{"-1", "1"},
		}},
		{"0,-1,-2,1", false, graph.Labels{
			Classes: 4, Class: []int64{2, 1, 0, 3}, Names: []string{"-2", "-1", "0", "1"},
		}},
		{"0,-1,1,2", true, graph.Labels{Columns: 1, Values: []float32{0, -1, 1, 2}}},
		{"x,10,9,x", false, graph.Labels{
			Classes: 3, Class: []int64{2, 0, 1, 2},
			Names: []string{"10", "9", "x"},
		}},
	} {
		rows := ""
		for i, label := range strings.Split(c.column, ",") {
			rows += string(rune('a'+i)) + "," + label + "\n"
		}
		files(t, map[string]string{"v.csv": "id,y\n" + rows, "e.csv": "a,b\nb,c\n"})
		g := read(t, Options{
			Edges: []string{"e.csv"}, Vertices: []string{"v.csv"},
			Label: "y", Values: c.values,
		})
		assert.EqualBy(t, c.want, g.Types[0].Labels, cmpopts.EquateNaNs())
		assert.Equal(t, 0, g.Types[0].Features.Columns)
		assert.Equal(t, []int32{0, 1}, g.Relations[0].Sources) // the list has no header
		none := "-1 of column y of v.csv taken for no label; if it is a class, write a word for it"
		assert.Equal(t, c.column == "0,-1,1.0,0", slices.Contains(g.Notes, none))
	}
}

// TestTypes: each table is a vertex type, that with the label first, and each list a relation.
func TestTypes(t *testing.T) {
	files(t, map[string]string{
		"shops.csv": "id;size\ns1;3\ns2;5\n",
		"users.csv": "id;kind\nu1;a\nu2;b\nu3;a\n",
		"buys.csv":  "from;to\nu1;s2\nu3;s1\nu9;s1\n",
		"likes.csv": "from;to;w\nu1;u2;3\n",
	})
	o := Options{
		Edges:    []string{"buys.csv", "likes.csv"},
		Vertices: []string{"shops.csv", "user=users.csv"}, Label: "kind",
	}
	g := read(t, o)
	assert.Equal(t, "user", g.Types[0].Type)
	assert.Equal(t, []string{"u1", "u2", "u3", "u9"}, g.Types[0].Names)
	assert.Equal(t, "shops", g.Types[1].Name())
	assert.Equal(t, []float32{3, 5}, g.Types[1].Features.Dense)
	for i, want := range []string{"user buys shops", "user likes user"} {
		source, name, target := g.Relations[i].Ends()
		assert.Equal(t, want, source+" "+name+" "+target)
	}
	assert.Equal(t, []int32{2, 3, 0}, g.Relations[0].Sources)
	assert.Equal(t, []int64{0, 2, 3}, g.Relations[0].Indptr)
	assert.Equal(t, "likes.csv: columns left out: w", g.Notes[len(g.Notes)-1]) // of several lists none is taken
}

// TestParquet: numbers, text, truth values, dates, times and decimals of Parquet are those of text.
func TestParquet(t *testing.T) {
	type row struct {
		ID    int64     `parquet:"id"`
		X     float32   `parquet:"x"`
		City  *string   `parquet:"city,optional"`
		VIP   bool      `parquet:"vip"`
		Day   int32     `parquet:"day,date"`
		At    time.Time `parquet:"at,timestamp(microsecond)"`
		Cents int64     `parquet:"cents,decimal(2:18)"`
		Tags  []string  `parquet:"tags,list"`
	}
	rome, at := "Rome", time.Date(1969, 12, 31, 12, 0, 0, 0, time.UTC)
	var file bytes.Buffer
	require.NoError(t, parquet.Write(&file, []row{
		{ID: 7, X: .1, City: &rome, VIP: true, Day: 365, At: at, Cents: 125},
		{ID: 3, X: 1e10, Day: -1, At: at.Add(36 * time.Hour), Cents: -50, Tags: []string{"a"}},
	}))
	files(t, map[string]string{"v.parquet": file.String(), "e.csv": "src,dst\n7,3\n"})
	g := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.parquet"}})
	assert.Equal(t, []string{"7", "3"}, g.Types[0].Names)
	assert.Equal(t, []float32{.1, 1, 0, 1, 365, -.5, 1.25, 1e10, 0, 1, 0, -1, 1, -.5},
		g.Types[0].Features.Dense)
	assert.Equal(t, []columns.LeftOut{{Name: "tags", Why: "its Parquet type is not read, as of lists, " +
		"structures and bytes"}},
		g.Types[0].Table.LeftOut)
}

// TestGzip: a table may be compressed, and needs no row for a vertex of the edges but one.
func TestGzip(t *testing.T) {
	files(t, map[string]string{
		"v.tsv.gz": graphtest.Zipped(t, "id\tx\na\t1\n"), "e.tsv": "source\ttarget\na\tb c\n",
	})
	g := read(t, Options{Edges: []string{"e.tsv"}, Vertices: []string{"v.tsv.gz"}})
	assert.Equal(t, []string{"a", "b c"}, g.Types[0].Names)
	assert.Equal(t, []float32{1, 0, 1, 1}, g.Types[0].Features.Dense)
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestRefused: each refusal names the file, the line and the way out.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		vertices, edges, want string
		change                func(*Options)
	}{
		{
			"id,x\na,1\na,2\n", "a,a\n",
			`v.csv:3: the id "a" stands in row 1 as well: give each vertex one row, ` +
				`or name the column of the ids with --id; v.csv has "id", "x"`, nil,
		},
		{"id,x\n,1\n", "a,a\n", "v.csv:2: the id is empty: give one, or leave the row out", nil},
		{"id,x\na\n", "a,a\n", "v.csv:2: 1 column, where the first line has 2", nil},
		{
			"id,x\na,1,2\n", "a,a\n",
			"v.csv:2: 3 columns, where the first line has 2: put a field that has a separator in quotes", nil,
		},
		{
			"id,x\nb,2\na,\"1\nb,2\n", "a,a\n", "v.csv:3: a field begins with a quote that no other " +
				"closes: close it, or leave the quote out", nil,
		},
		{
			"id,x\ra,1\r", "a,a\n", `v.csv:1: a line ends as those of old Macs: convert the file, ` +
				`as with tr '\r' '\n'`, nil,
		},
		{
			"id,x\na,Z\xfcrich\n", "a,a\n",
			`v.csv:2: column x: the text "Z\xfcrich" is not UTF-8: convert the file, ` +
				"as with iconv -f LATIN1 -t UTF-8", nil,
		},
		{
			"id,Stra\xdfe\na,1\n", "a,a\n",
			`v.csv:1: the name "Stra\xdfe" is not UTF-8: convert the file, ` +
				"as with iconv -f LATIN1 -t UTF-8", nil,
		},
		{
			"\xff\xfei\x00d\x00", "a,a\n",
			"v.csv: is UTF-16: convert the file, as with iconv -f UTF-16 -t UTF-8",
			nil,
		},
		{"id,x\n", "a,a\n", "v.csv: has no row behind its header", nil},
		{"1,2\n3,4\n", "1,3\n", "v.csv:1: the first line names no columns: put a line with a name for each " +
			"before it", nil},
		{"id,id\na,b\n", "a,a\n", `v.csv:1: two columns are called "id": rename one`, nil},
		{
			"id,x\na,1\n", "p,q,r\na,a,a\n",
			`e.csv:1: the columns are "p", "q", "r", and which are the ends of an ` +
				`edge? Name them with --source and --target`, nil,
		},
		{
			"id,x\na,1\n", "p,q\na,a\n",
			`e.csv:1: there is no column z, which --source asks for: there are "p", "q"`,
			func(o *Options) { o.Source = []string{"z"} },
		},
		{
			"id,x\na,1\n", "p,q\na,a\n",
			"e.csv:1: --target shop:q: no table of vertices is of the type shop, but of v: give --vertices-from " +
				"shop=TABLE, too, where the column of ids is enough",
			func(o *Options) { o.Source, o.Target = []string{"v:p"}, []string{"shop:q"} },
		},
		{
			"id,x\na,1\n", "source,target\na,a\n",
			`e.csv:1: column target would be both ends of an edge: name two of "source", "target" with --source ` +
				"and --target",
			func(o *Options) { o.Source = []string{"target"} },
		},
		{
			"id,x\na,1\n", "src,dst\nb,c\n",
			`e.csv: no end of an edge is an id of v.csv, as ids are written like "a", and ends like ` +
				`"b": name the columns of the ids with --id, and those of the ends with --source and --target; ` +
				`v.csv has "id", "x"`, nil,
		},
		{
			"id,x\n007,1\nC8,1\n", "src,dst\n7.0,c8\n",
			`e.csv: no end of an edge is an id of v.csv, which has "007" where an end is "7.0": ` +
				"write the ids in both files alike", nil,
		},
		{"id,x\na,1\n", "src,dst\n", "e.csv: has no edge; give a list of edges, source and target", nil},
		{
			"id,x\na,1\n", "src,dst\na,\n",
			"e.csv:2: target: the id is empty: give one, or leave the row out", nil,
		},
		{"id,x\na,1\n", "src,dst\na\n", "e.csv:2: 1 column, where the first line has 2", nil},
		{
			"id,x\na,1\n", "src,dst,w\na,a,much\n",
			`e.csv:2: column w: "much" is no finite number, and weights of edges are numbers: correct it, or leave ` +
				`the row or the column out`,
			func(o *Options) { o.EdgeWeights = "w" },
		},
		{"id,x\na,1\n", "src,dst\na,a\n", "--leave-out y: no table of vertices has this column; v.csv has " +
			`"id", "x"`, func(o *Options) { o.LeaveOut = []string{"y"} }},
		{
			"id;x, y\na;1\n", "src,dst\na,a\n", "--leave-out x: no table of vertices has this column; v.csv has " +
				`"id", "x, y"; a name with a comma stands in double quotes, as in --leave-out '"a, b"'`,
			func(o *Options) { o.LeaveOut = []string{"x", " y"} },
		},
		{
			"id,x\na,1\n", "src,dst\na,a\n",
			`--label y: no table of vertices has this column; v.csv has "id", "x"`,
			func(o *Options) { o.Label = "y" },
		},
		{
			"id,x\na,\n", "src,dst\na,a\n", "v.csv: column x: no row has a label",
			func(o *Options) { o.Label = "x" },
		},
		{
			"id,x\na,b\n", "src,dst\na,a\n", `v.csv: column x: --values asks for numbers, and "b" in row 1 is none: correct it, ` +
				"or leave the field empty",
			func(o *Options) { o.Label, o.Values = "x", true },
		},
	} {
		files(t, map[string]string{"v.csv": c.vertices, "e.csv": c.edges})
		o := Options{
			Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, Choices: columns.Choices{Most: 3},
		}
		if c.change != nil {
			c.change(&o)
		}
		s, err := Open(o)
		if err == nil {
			_, err = s.Read()
		}
		refused(t, err, c.want)
	}
}
