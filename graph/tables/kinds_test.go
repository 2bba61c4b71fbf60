package tables

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/assert"
)

// TestWarnsOfKinds: ids that stand in both columns of a list of users and items are warned of, and those of
// one kind are not, whatever their columns are called.
func TestWarnsOfKinds(t *testing.T) {
	list := func(header string, sources, targets, each int) string {
		var text strings.Builder
		fmt.Fprintln(&text, header)
		for k := range max(sources, targets) {
			fmt.Fprintf(&text, "%d,%d\n", 1+k%sources, each*(1+k*7%targets))
		}
		return text.String()
	}
	for _, c := range []struct {
		header                 string
		sources, targets, each int
		want                   int // ids in both
	}{
		{"user,item", 40, 30, 1, 30},
		{"userId,movieId", 40, 30, 3, 13}, // 3, 6, …, 39
		{"user,item", 40, 30, 41, 0},      // no id in both
		{"user,item", 40, 40, 1, 0},       // of one kind, as far as one sees
		{"user,item", 40, 39, 1, 0},
		{"user,item", 8, 4, 1, 0}, // too few
		{"payer,payee", 40, 30, 1, 0},
		{"source,target", 40, 30, 1, 0},
		{"from_user,to_user", 40, 30, 1, 0},
		{"user1,user2", 40, 30, 1, 0},
	} {
		edges := list(c.header, c.sources, c.targets, c.each)
		files(t, map[string]string{"v.csv": "id,size\n1,1\n2,2\n", "e.csv": edges})
		ends := strings.Split(c.header, ",")
		o := Options{Edges: []string{"e.csv"}, Source: ends[:1], Target: ends[1:]}
		withTable := o
		withTable.Vertices = []string{"v.csv"}
		for _, o := range []Options{o, withTable} {
			var want []string
			if c.want > 0 {
				want = []string{fmt.Sprintf("e.csv: %d ids stand in both %s and %s, and each is one vertex; where these "+
					"are two kinds of things, make two types of them, whose tables may have ids alone: --vertices-from "+
					"%[2]s=FILE --vertices-from %[3]s=FILE --source %[2]s:%[2]s --target %[3]s:%[3]s", c.want, ends[0], ends[1])}
			}
			var got []string
			for _, warning := range read(t, o).Warnings {
				if !strings.Contains(warning, "ids from 1?") {
					got = append(got, warning)
				}
			}
			assert.Equal(t, want, got, "%+v", c)
		}
	}

	// The way out that the warning names.
	users, items := "id\n", "id\n"
	for k := 1; k <= 40; k++ {
		users += fmt.Sprintln(k)
		if k <= 30 {
			items += fmt.Sprintln(k)
		}
	}
	files(t, map[string]string{"u.csv": users, "i.csv": items, "e.csv": list("user,item", 40, 30, 1)})
	g := read(t, Options{
		Edges: []string{"e.csv"}, Vertices: []string{"user=u.csv", "item=i.csv"},
		Source: []string{"user:user"}, Target: []string{"item:item"},
	})
	assert.Empty(t, g.Warnings)
	assert.Equal(t, []int{40, 30}, []int{g.Types[0].Count, g.Types[1].Count})
}
