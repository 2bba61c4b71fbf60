package tables

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestOddLabels: a word, or a number without an end, among values is refused with its row, of edges as of
// vertices, and is no reason to take each value for a class. Among many whole
// numbers it is told of, and a few classes may be numbers and words.
func TestOddLabels(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"abc", `labels are numbers, and "abc" in row 13 is none: correct it, or leave the field empty`},
		{"inf", `labels are numbers, and "inf" in row 13 is none: correct it, or leave the field empty`},
		{"1e39", `labels are numbers, and "1e39" in row 13 is none: correct it, or leave the field empty`},
		{"", ""},
	} {
		vertices, edges := "id,age,level\n", "source,target,stars\n"
		for k := range 40 {
			x := fmt.Sprintf("%.2f", 0.25+float64(k)/8)
			if k == 3 { // a row without a label is one, too
				x = ""
			}
			if k == 12 {
				x = c.word
			}
			vertices += fmt.Sprintf("v%d,%d,%s\n", k, k, x)
			edges += fmt.Sprintf("v%d,v%d,%s\n", k, (k+1)%40, x)
		}
		files(t, map[string]string{"v.csv": vertices, "e.csv": edges})
		for column, o := range map[string]Options{
			"v.csv: column level": {Label: "level"}, "e.csv: column stars": {EdgeLabel: "stars"},
		} {
			o.Edges, o.Vertices = []string{"e.csv"}, []string{"v.csv"}
			for _, values := range []bool{false, true} {
				o.Values = values
				opened, err := Open(o)
				require.NoError(t, err)
				g, err := opened.Read()
				switch {
				case c.want == "":
					require.NoError(t, err)
					assert.Equal(t, true, g.Types[0].Labels.Continuous() ||
						g.Relations[0].HasLabels() &&
							g.Relations[0].Labels.Continuous(), "values")
				case values:
					_, which, _ := strings.Cut(c.want, ", and ")
					assert.Refused(t, err, column+": --values asks for numbers, and "+which)
				default:
					assert.Refused(t, err, column+": nearly all "+c.want)
				}
			}
		}
	}

	vertices := "id,size,level\n"
	for k := range 40 {
		vertices += fmt.Sprintf("v%d,%d,%s\n", k, k, []string{"0.5", "1.5", "2.5", "none yet"}[k%4])
	}
	files(t, map[string]string{"v.csv": vertices, "e.csv": "source,target\nv1,v2\n"})
	g := read(t, Options{Label: "level", Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}})
	assert.Equal(t, []string{"0.5", "1.5", "2.5", "none yet"}, g.Types[0].Labels.Names)

	edges := "source,target,visits\n"
	for k := range 400 {
		edges += fmt.Sprintf("v%d,v%d,%s\n", k%40, k%37, []string{fmt.Sprint(k % 101), "abc"}[k/399])
	}
	files(t, map[string]string{"v.csv": vertices, "e.csv": edges})
	g = read(t, Options{EdgeLabel: "visits", Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}})
	assert.Contains(t, strings.Join(g.Notes, "\n"), "column visits of e.csv taken for 102 classes of 400 "+
		`edges, as "abc" in row 400 is no number: correct it, or leave the field empty, if the others are values`)

	alone := "source,target,stars\n1,0,4\n0,1,3\n"
	files(t, map[string]string{"e.csv": alone})
	g = read(t, Options{EdgeLabel: "stars", Values: true, Edges: []string{"e.csv"}})
	assert.Equal(t, []float32{4, 3}, g.Relations[0].Labels.Values)
}
