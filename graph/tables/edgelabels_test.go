package tables

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestGapsOfEdges: a value that is missing in a list of edges with labels is the mean of the others, in the
// same columns as of vertices. New edges, and a list that is read like another one, have the same features.
func TestGapsOfEdges(t *testing.T) {
	const days, header = 20454, "from,to,amount,when,new,y\n" // until 2026
	readRows := func(rows string, features ...string) *graph.Graph {
		files(t, map[string]string{"v.csv": "id,size\na,1\nb,2\nc,3\n", "e.csv": header + rows})
		return read(t, Options{
			Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeFeatures: features, EdgeLabel: "y",
			Source: []string{"from"}, Target: []string{"to"},
		})
	}
	const rows = "c,a,1,2026-01-01,true,no\na,b,,2026-01-03,n/a,yes\nb,c,4,,false,\n"
	g := readRows(rows)
	r := &g.Relations[0]
	assert.Equal(t, []string{"amount", "amount.missing", "when", "when.missing", "new", "new.missing"},
		r.NumberColumns.Features())
	assert.Equal(t, []float32{
		1, 0, days, 0, 1, 0,
		2.5, 1, days + 2, 0, .5, 1,
		4, 0, days + 1, 1, 0, 0,
	}, r.Features.Dense)
	assert.Equal(t, []int64{0, 1, -1}, r.Labels.Class)
	assert.Equal(t, []string{
		"e.csv: column amount: no value in 1 row, where it is the mean; a further feature marks them",
		"e.csv: column when: no value in 1 row, where it is the mean; a further feature marks them",
		"e.csv: column new: no value in 1 row, where it is the mean; a further feature marks them",
		"e.csv: features of the edges: amount, when, new; --edge-features names others",
	}, g.Notes[:4])

	// Divided by time, the mean is that of the rows that train.
	rule, err := graph.ParseSplit("time:when=2026-02-01,2026-03-01")
	require.NoError(t, err)
	files(t, map[string]string{"v.csv": "id,size\na,1\nb,2\nc,3\n", "e.csv": header +
		"c,a,1,2026-01-01,true,no\na,b,,2026-01-03,n/a,yes\nb,c,4,2026-01-31T23:59,false,\n" +
		"b,c,1000,2026-02-01,true,no\na,c,2000,2026-04-01,true,no\nb,a,,2026-04-02,true,yes\n"})
	timed := read(t, Options{
		Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeLabel: "y", Source: []string{"from"},
		Target: []string{"to"}, EdgeSplitBy: rule.By(), EdgeSplitRule: rule,
	})
	means := map[string]float32{}
	for _, c := range timed.Relations[0].NumberColumns {
		means[c.Name] = c.Mean
	}
	assert.Equal(t, 2.5, means["amount"])
	assert.Equal(t, .5, means["new"])
	assert.Contains(t, strings.Join(timed.Notes, "\n"),
		"e.csv: column amount: no value in 2 rows, where it is the mean of the training rows; a further feature marks them")
	for k, amount := range map[int]float32{0: 2.5, 1: 1} { // into a: of b in April, and of c
		assert.Equal(t, amount, timed.Relations[0].Features.Dense[k*4])
	}

	// Where no row has a value that trains, it is that of all.
	files(t, map[string]string{
		"v.csv": "id,size\na,1\nb,2\nc,3\n",
		"e.csv": "from,to,late,when,y\nc,a,,2026-01-01,no\nb,c,4,2026-02-01,yes\na,c,8,2026-04-01,no\n",
	})
	late := read(t, Options{
		Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeLabel: "y", Source: []string{"from"},
		Target: []string{"to"}, EdgeSplitBy: rule.By(), EdgeSplitRule: rule,
	})
	assert.Equal(t, float32(6), late.Relations[0].NumberColumns[0].Mean)
	assert.Contains(t, strings.Join(late.Notes, "\n"),
		"e.csv: column late: no value in 1 row, where it is the mean; a further feature marks them")

	// The columns that are asked for, in their order.
	named := readRows(rows, "new", "amount").Relations[0]
	assert.Equal(t, []float32{1, 0, 1, 0, .5, 1, 2.5, 1, 0, 0, 4, 0}, named.Features.Dense)

	files(t, map[string]string{
		"v.csv": "id,size\na,1\nb,2\nc,3\n", "new.csv": "from,to,amount,when,new\nc,a,,2026-01-04,true\nb,c,7,,\n",
	})
	o := Options{Edges: []string{"new.csv"}}
	want := []float32{2.5, 1, days + 3, 0, 1, 0, 7, 0, days + 1, 1, .5, 1}
	added, err := Add(o, g)
	require.NoError(t, err)
	assert.Equal(t, want, added.Edges[0].Features)
	o.Vertices, o.Like = []string{"v.csv"}, LikeGraph(g)
	assert.Equal(t, want, read(t, o).Relations[0].Features.Dense)

	// Of few other values, too: the same as of vertices.
	whole := strings.Repeat("c,a,1,2026-01-01,true,no\n", 5) +
		strings.Repeat("a,b,4,2026-01-03,false,yes\n", 5)
	odd := readRows(whole + "b,c,much,2026-01-02,true,no\n")
	assert.Equal(t, columns.List{
		{Name: "amount", Kind: columns.Number, Mean: 2.5, Gaps: true},
		{Name: "when", Kind: columns.Date, Mean: days + 1},
		{Name: "new", Kind: columns.Boolean, Mean: 6. / 11},
	}, odd.Relations[0].NumberColumns)
	assert.Equal(t, []float32{2.5, 1, days + 1, 1}, odd.Relations[0].Features.Dense[40:])
	assert.Equal(t, "e.csv: column amount: “much” in row 11 is no number, and counts as missing", odd.Notes[0])

	// New edges of which a value is missing that no edge of the graph lacks.
	g = readRows(whole)
	for _, c := range []struct {
		rows, note string
		want       []float32
	}{
		{"b,c,,,\n", "", []float32{2.5, days + 1, .5}},
		{
			strings.Repeat("b,c,3,2026-01-02,true\n", 9) + "b,c,much,2026-01-02,true\n",
			"new.csv: column amount: “much” in row 10 is no number, and counts as missing",
			[]float32{2.5, days + 1, 1},
		},
	} {
		files(t, map[string]string{"new.csv": "from,to,amount,when,new\n" + c.rows})
		added, err := Add(Options{Edges: []string{"new.csv"}}, g)
		require.NoError(t, err)
		some := added.Edges[0].Features
		assert.Equal(t, c.want, some[len(some)-3:])
		assert.Equal(t, c.note, strings.Join(added.Notes, "; "))
	}
	files(t, map[string]string{
		"new.csv": "from,to,amount,when,new\nb,c,1,2026-01-02,true\nb,c,much,2026-01-02,true\n",
	})
	_, err = Add(Options{Edges: []string{"new.csv"}}, g)
	assert.Refused(t, err, `new.csv:3: column amount: "much" is no finite number`)
}

// TestColumnThatDivides: a column of dates, numbers or words that divides the edges is no feature of them,
// unless it is named. Without such a split it is one, as any other.
func TestColumnThatDivides(t *testing.T) {
	const days = 20454 // until 2026
	files(t, map[string]string{
		"v.csv": "id\na\nb\nc\n",
		"e.csv": "from,to,amount,when,step,part,y\nc,a,1,2026-01-01,5,train,no\na,b,2,2026-01-02,6,val,yes\n" +
			"b,c,4,2026-01-03,7,test,no\n",
		"bare.csv": "from,to,when,y\nc,a,2026-01-01,no\na,b,2026-01-02,yes\nb,c,2026-01-03,no\n",
		"new.csv":  "from,to,amount,step,part\nb,a,8,9,test\n",
		"late.csv": "from,to,amount,when,step,part,y\nb,a,8,2026-01-04,9,test,no\n",
	})
	const time, numbers = "time:when=2026-01-02,2026-01-03", "time:step=6,7"
	readSplit := func(list, split string, features ...string) *graph.Graph {
		o := Options{
			Edges: []string{list}, Vertices: []string{"v.csv"}, EdgeFeatures: features, EdgeLabel: "y",
			Source: []string{"from"}, Target: []string{"to"},
		}
		if split != "" {
			rule, err := graph.ParseSplit(split)
			require.NoError(t, err)
			o.EdgeSplitBy, o.EdgeSplitRule = rule.By(), rule
			o.EdgeSplits = func(l *graph.Frame) error { return l.MakeSplits(split, 1, 0) }
		}
		return read(t, o)
	}
	const prefix = "features of the edges: "
	all := []float32{1, days, 5, 2, days + 1, 6, 4, days + 2, 7}
	for _, c := range []struct {
		split        string
		named, names []string // columns that are asked for, and those of the features
		want         []float32
		note         string
	}{
		{"", nil, []string{"amount", "when", "step"}, all, prefix + "amount, when, step; --edge-features"},
		{
			time, nil,
			[]string{"amount", "step"},
			[]float32{1, 5, 2, 6, 4, 7},
			prefix + "amount, step; not when, which divides them; --edge-features names others",
		},
		{
			numbers, nil,
			[]string{"amount", "when"},
			[]float32{1, days, 2, days + 1, 4, days + 2},
			prefix + "amount, when; not step, which divides them; --edge-features names others",
		},
		{
			"column:part", nil,
			[]string{"amount", "when", "step"},
			all,
			prefix + "amount, when, step; not part, which divides them; --edge-features names others",
		},
		{
			time,
			[]string{"when", "amount"},
			[]string{"when", "amount"},
			[]float32{days, 1, days + 1, 2, days + 2, 4},
			"",
		},
		{numbers, []string{"step"}, []string{"step"}, []float32{5, 6, 7}, ""},
		{time, []string{"amount"}, []string{"amount"}, []float32{1, 2, 4}, ""},
	} {
		g := readSplit("e.csv", c.split, c.named...)
		r := &g.Relations[0]
		assert.Equal(t, c.names, r.NumberColumns.Features(), "%s %v", c.split, c.named)
		assert.Equal(t, c.want, r.Features.Dense, "%s %v", c.split, c.named)
		if c.split != "" {
			assert.Equal(t, []graph.Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}}},
				r.Splits)
		}
		notes := strings.Join(g.Notes, "\n")
		assert.Contains(t, notes, c.note)
		assert.Equal(t, c.note != "", strings.Contains(notes, prefix), "%s %v", c.split, c.named)
	}

	// No other column is left.
	bare := readSplit("bare.csv", time)
	assert.Equal(t, 0, bare.Relations[0].Features.Columns)
	assert.Contains(t, strings.Join(bare.Notes, "\n"),
		"bare.csv: features of the edges: none; not when, which divides them; --edge-features names others")

	// New edges need no date, and edges with labels have it beside their features.
	g := readSplit("e.csv", time)
	added, err := Add(Options{Edges: []string{"new.csv"}}, g)
	require.NoError(t, err)
	assert.Equal(t, []float32{8, 9}, added.Edges[0].Features)
	added, err = Add(Options{Edges: []string{"late.csv"}, LabelledEdges: true}, g)
	require.NoError(t, err)
	assert.Equal(t, []float32{8, 9}, added.Edges[0].Features)
	assert.Equal(t, []float64{(days + 3) * 24 * 60 * 60}, added.Frames[0].SplitBy.Values)
}

// TestLabelsOfOneOfSeveralLists: one of several lists of edges may have labels, and features of its own.
func TestLabelsOfOneOfSeveralLists(t *testing.T) {
	files(t, map[string]string{
		"v.csv":    "id,size\na,1\nb,2\nc,3\n",
		"pay.csv":  "from,to,amount,bad\na,b,1,no\nb,c,3,yes\n",
		"call.csv": "from,to,minutes\nc,a,7\na,c,1\n",
	})
	o := Options{
		Edges: []string{"call.csv", "pay.csv"}, Vertices: []string{"v.csv"}, EdgeLabel: "pay:bad",
		Source: []string{"from"}, Target: []string{"to"},
	}
	g := read(t, o)
	call, pay := &g.Relations[0], &g.Relations[1]
	assert.Equal(t, "bad", pay.Labels.Column)
	assert.Equal(t, []int64{0, 1}, pay.Labels.Class)
	assert.Equal(t, []string{"no", "yes"}, pay.Labels.Names)
	assert.Equal(t, []float32{1, 3}, pay.Features.Dense)
	assert.Equal(t, 0, call.Features.Columns)
	if call.HasLabels() {
		t.Error("a list without labels has some")
	}
	o.EdgeLabel = "bad"
	_, err := Open(o)
	assert.Refused(t, err, "--edge-label bad: is a column of one of 2 lists of edges; name its relation, as in "+
		"--edge-label call:COLUMN")
}

// TestDatesAreNoClasses: a column of dates of which most rows have their own is refused, of edges as of
// vertices, and text is told of. A few dates are classes.
func TestDatesAreNoClasses(t *testing.T) {
	vertices, edges := "id,born,club,name\n", "source,target,day,month,note\n"
	for k := range 20 {
		date := fmt.Sprintf("2024-01-%02d", k+1)
		vertices += fmt.Sprintf("v%d,%s,2024-0%d-01,name %d\n", k, date, k%3+1, k)
		edges += fmt.Sprintf("v%d,v%d,%s,2024-0%d-01,note %d\n", k, (k+1)%20, date, k%3+1, k)
	}
	files(t, map[string]string{"v.csv": vertices, "e.csv": edges})
	o := Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}}
	on := func(change func(*Options)) Options {
		changed := o
		change(&changed)
		return changed
	}
	for column, options := range map[string]Options{
		"born": on(func(o *Options) { o.Label = "born" }),
		"day":  on(func(o *Options) { o.EdgeLabel = "day" }),
	} {
		options.Choices.Most = 10
		opened, err := Open(options)
		require.NoError(t, err)
		_, err = opened.Read()
		assert.ErrorContains(t, err, ".csv: column "+column+
			`: its labels are dates, as "2024-01-01", and would be 20 classes of 20 `)
	}
	g := read(t, on(func(o *Options) { o.Label = "club" }))
	assert.Equal(t, 3, g.Types[0].Labels.Classes)
	g = read(t, on(func(o *Options) { o.EdgeLabel = "month" }))
	assert.Equal(t, 3, g.Relations[0].Labels.Classes)
	const rest = "taken for 20 classes of 20 "
	g = read(t, on(func(o *Options) { o.EdgeLabel = "note" }))
	assert.Contains(t, strings.Join(g.Notes, "\n"), "column note of e.csv "+rest+"edges: most are")
	g = read(t, on(func(o *Options) { o.Label = "name" }))
	assert.Contains(t, strings.Join(g.Notes, "\n"), "column name of v.csv "+rest+"vertices: most are")
}

// TestNamesOfLabels: of several labels a column whose name has a comma or a quote is named as a field of a
// table is, and so it is in new edges.
func TestNamesOfLabels(t *testing.T) {
	const header = "source,target,\"late, or so\",a\"b\n"
	files(t, map[string]string{
		"v.csv": "id\na\nb\n", "e.csv": header + "a,b,1,0\nb,a,,1\n", "new.csv": header + "b,b,0,1\n",
	})
	o := Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeLabel: `"late, or so", a"b`}
	g := read(t, o)
	labels := &g.Relations[0].Labels
	assert.Equal(t, []string{"late, or so", `a"b`}, labels.Names)
	nan := float32(math.NaN())
	assert.EqualBy(t, []float32{nan, 1, 1, 0}, labels.Multi, cmpopts.EquateNaNs()) // into a, into b
	added, err := Add(Options{Edges: []string{"new.csv"}, LabelledEdges: true}, g)
	require.NoError(t, err)
	assert.Equal(t, []float32{0, 1}, added.Frames[0].Labels.Multi)
	o.EdgeLabel = `late,"a`
	_, err = Open(o)
	assert.Refused(t, err, `--edge-label late,"a: a name begins with a quote that no other closes`)
}

// TestIndexIsNoFeature: the index that pandas writes, in CSV without a name, is no feature of edges with
// labels, unless it is named.
func TestIndexIsNoFeature(t *testing.T) {
	type indexed struct {
		Source int64   `parquet:"source"`
		Target int64   `parquet:"target"`
		Amount float64 `parquet:"amount"`
		Y      string  `parquet:"y"`
		Index  int64   `parquet:"__index_level_0__"`
	}
	files(t, map[string]string{
		"v.csv": "id\n0\n1\n", "e.csv": ",source,target,amount,y\n7,0,1,2.5,no\n8,1,0,4,yes\n",
		"e.parquet": tableOf(t, []indexed{{0, 1, 2.5, "no", 7}, {1, 0, 4, "yes", 8}}),
	})
	for list, index := range map[string]string{"e.csv": "Unnamed: 0", "e.parquet": "__index_level_0__"} {
		o := Options{Edges: []string{list}, Vertices: []string{"v.csv"}, EdgeLabel: "y"}
		g := read(t, o)
		assert.Equal(t, []float32{4, 2.5}, g.Relations[0].Features.Dense, list) // into 0, into 1
		assert.Contains(t, strings.Join(g.Notes, "\n"), list+": columns left out: "+index)
		o.EdgeFeatures = []string{index}
		assert.Equal(t, []float32{8, 7}, read(t, o).Relations[0].Features.Dense, list)
	}
}
