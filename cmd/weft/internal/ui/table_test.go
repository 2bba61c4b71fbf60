package ui

import (
	"strings"
	"testing"

	"weft/internal/assert"
)

func TestFolded(t *testing.T) {
	for _, c := range []struct {
		text  string
		Width int
		want  []string
	}{
		{"short", 5, []string{"short"}},
		{"", 8, []string{""}},
		{"papers and what they cite", 12, []string{"papers and", "what they", "cite"}},
		{"$DATA/npz/ms_academic_phy.npz", 12, []string{"$DATA/npz/", "ms_academic_", "phy.npz"}},
		{"abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		{"éééé éé", 4, []string{"éééé", "éé"}},
	} {
		assert.Equal(t, c.want, folded(c.text, c.Width), "%q in %d", c.text, c.Width)
	}
}

// On a terminal a table leaves out what it may, and folds the cells of the widest columns.
func TestTableFits(t *testing.T) {
	for columns, want := range map[int]string{
		0: "name  what                       from\n" +
			"cora  papers and what they cite  example.org\n",
		44: "name  what                       from\n" +
			"cora  papers and what they cite  example.org\n",
		43: "name  what\n" +
			"cora  papers and what they cite\n" +
			"for a wider terminal, or in --json: from\n",
		18: "name  what\n" +
			"cora  papers and\n" +
			"      what they\n" +
			"      cite\n" +
			"for a wider terminal, or in --json: from\n",
	} {
		var out strings.Builder
		table := NewTable(&out)
		table.columns = columns
		table.Row("name", "what", "from")
		table.Row("cora", "papers and what they cite", "example.org")
		table.LeaveOut("from", "nosuch")
		table.Flush()
		assert.Equal(t, want, out.String(), "%d columns", columns)
	}
}
