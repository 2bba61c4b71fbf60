package table

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestAhead: rows that are read ahead have their values and lines, over batches, long rows and rows of two
// lines; and where one is damaged all before it have been given.
func TestAhead(t *testing.T) {
	long := strings.Repeat("x", rowsAhead*200) // as much as fills a batch
	for _, bad := range []int{-1, 0, 1, rowsAhead - 1, rowsAhead, 3*rowsAhead + 7} {
		const rows = 4*rowsAhead + 3
		var text strings.Builder
		text.WriteString("id,text,n\n")
		var lines []int64
		line := int64(2)
		want := func(k int) string {
			switch {
			case k%701 == 700:
				return long
			case k%5 == 4:
				return "two\nlines"
			}
			return fmt.Sprint("text ", k)
		}
		for k := range rows {
			lines = append(lines, line)
			line += int64(1 + strings.Count(want(k), "\n"))
			if k == bad {
				text.WriteString("an old\rMac,,\n")
				continue
			}
			fmt.Fprintf(&text, "%d,\"%s\",%d\n", k, want(k), k*k)
		}
		path := filepath.Join(t.TempDir(), "rows.csv")
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o666))
		of, given := Table{Path: path, Separators: ",", Line: "a table", Header: true}, 0
		err := of.Each(func([]Column) ([]int, error) { return []int{2, 1, 0}, nil }, func(r *Row) error {
			assert.Equal(t, lines[given], r.At)
			assert.Equal(t, fmt.Sprint(given), string(r.Text(2)))
			assert.Equal(t, want(given), string(r.Text(1)))
			assert.Equal(t, fmt.Sprint(given*given), string(r.Text(0)))
			given++
			return nil
		})
		if bad < 0 {
			assert.NoError(t, err)
			assert.Equal(t, rows, given)
		} else {
			assert.ErrorContains(t, err, fmt.Sprintf("rows.csv:%d: a line ends as those of old Macs", lines[bad]))
			assert.Equal(t, bad, given)
		}
	}
}
