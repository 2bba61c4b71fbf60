package tables

import (
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

type wire struct {
	From   string  `parquet:"from"`
	To     string  `parquet:"to"`
	Froms  string  `parquet:"FROM"`
	Tos    string  `parquet:"TO"`
	Amount float64 `parquet:"amount"`
	Weight float64 `parquet:"weight"`
	Fraud  string  `parquet:"fraud"`
	Label  string  `parquet:"label"`
	Day    string  `parquet:"day"`
	Due    string  `parquet:"due"`
}

// TestTwoColumnsOfOneName: a column that is read from a list of edges is the only one of its name, in text
// and in Parquet, in a file and in parts. If no setting names an end, names of ends do not differ in capitals
// alone. Other columns may have one name.
func TestTwoColumnsOfOneName(t *testing.T) {
	rows := []wire{
		{"a", "b", "b", "c", 1, 5, "no", "x", "2026-01-02", "2026-02-02"},
		{"b", "c", "c", "a", 2, 6, "yes", "y", "2026-01-03", "2026-02-03"},
	}
	var text strings.Builder
	text.WriteString("from,to,FROM,TO,amount,weight,fraud,label,day,due\n")
	for _, r := range rows {
		for _, field := range []string{r.From, r.To, r.Froms, r.Tos, "1", "5", r.Fraud, r.Label, r.Day} {
			text.WriteString(field + ",")
		}
		text.WriteString(r.Due + "\n")
	}
	whole := map[string]string{".csv": text.String(), ".parquet": tableOf(t, rows)}
	rule, err := graph.ParseSplit("time:day=2026-01-03,2026-01-04")
	require.NoError(t, err)
	named := func(o *Options) { o.Source, o.Target = []string{"from"}, []string{"to"} }
	labelled := func(o *Options) {
		named(o)
		o.EdgeLabel = "fraud"
	}
	for _, c := range []struct {
		from, to string // the names that change, of as many bytes
		set      func(*Options)
		want     string // the refusal; "": there is none
	}{
		{"", "", func(*Options) {}, `columns "from" and "FROM" have one meaning: name one with --source`},
		{
			"FROM", "from", func(o *Options) { o.Target = []string{"to"} },
			`two columns are called "from": rename one`,
		},
		{"FROM", "from", named, `two columns are called "from": rename one`},
		{"TO", "to", named, `two columns are called "to": rename one`},
		{"", "", named, ""},
		{"weight", "amount", named, ""},
		{"weight", "amount", func(o *Options) {
			named(o)
			o.EdgeWeights = "amount"
		}, `two columns are called "amount": rename one`},
		{"weight", "amount", func(o *Options) {
			named(o)
			o.EdgeFeatures = []string{"amount"}
		}, `two columns are called "amount": rename one`},
		{"weight", "amount", func(o *Options) {
			labelled(o)
			o.EdgeFeatures = []string{"day"}
		}, ""},
		{"weight", "amount", labelled, `two columns are called "amount": rename one`},
		{"label", "fraud", labelled, `two columns are called "fraud": rename one`},
		{"label", "fraud", named, ""},
		{"due", "day", func(o *Options) {
			labelled(o)
			o.EdgeFeatures, o.EdgeSplitBy, o.EdgeSplitRule = []string{"amount"}, rule.By(), rule
		}, `two columns are called "day": rename one`},
	} {
		for ending, content := range whole {
			if c.from != "" {
				content = strings.ReplaceAll(content, c.from, c.to) // in Parquet those of the footer, too
			}
			for _, path := range []string{"e" + ending, "parts"} {
				files(t, map[string]string{
					"v.csv": "id,x\na,1\nb,2\nc,3\n", "e" + ending: content,
					"parts/0" + ending: content, "parts/1" + ending: content,
				})
				o := Options{Edges: []string{path}, Vertices: []string{"v.csv"}}
				c.set(&o)
				s, err := Open(o)
				if err == nil {
					_, err = s.Read()
				}
				if c.want == "" {
					assert.NoError(t, err, "%s, %s for %s", path, c.to, c.from)
				} else {
					assert.Refused(t, err, c.want)
				}
			}
		}
	}

	// New edges, of which only what the graph knows is read.
	const header = "from,to,amount,weight,fraud,"
	files(t, map[string]string{
		"v.csv": "id,x\na,1\nb,2\nc,3\n", "e.csv": header + "day\na,b,1,2,no,3\nb,c,2,3,yes,4\n",
		"new.csv":  header + "amount\na,c,1,2,no,3\n",
		"ends.csv": header + "to\na,c,1,2,no,b\n", "other.csv": header + "weight\na,c,1,2,no,3\n",
	})
	o := Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeFeatures: []string{"amount"}}
	named(&o)
	g := read(t, o)
	for list, want := range map[string]string{
		"new.csv": `new.csv:1: two columns are called "amount"`, "ends.csv": `two columns are called "to"`,
		"other.csv": "",
	} {
		added, err := Add(Options{Edges: []string{list}}, g)
		if want != "" {
			assert.Refused(t, err, want)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, []float32{1}, added.Edges[0].Features)
	}
}
