package table

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestAhead: rows that are read ahead have their values and lines, over batches, long rows and rows of two
// lines, also of a gzip file; and where one is damaged all before it have been given.
func TestAhead(t *testing.T) {
	for _, name := range []string{"rows.csv", "rows.csv.gz"} {
		t.Run(name, func(t *testing.T) { testAhead(t, name) })
	}
}

func testAhead(t *testing.T, name string) {
	t.Helper()
	long := randomText(200_000) // as much as fills a batch
	for _, bad := range []int{-1, 0, 1, rowsAhead - 1, rowsAhead, rowsAhead + 7} {
		const rows = 2*rowsAhead + 3
		var text strings.Builder
		text.WriteString("id,text,n\n")
		var lines []int64
		line := int64(2)
		want := func(k int) string {
			switch {
			case k%1501 == 1500:
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
		path, content := filepath.Join(t.TempDir(), name), []byte(text.String())
		if strings.HasSuffix(name, ".gz") {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := z.Write(content)
			require.NoError(t, errors.Join(err, z.Close()))
			content = packed.Bytes()
		}
		require.NoError(t, os.WriteFile(path, content, 0o666))
		table, seen, read := Table{Path: path, Separators: ",", Line: "a table", Header: true}, 0, int64(0)
		table.Progress = func(_ string, done, all int64) {
			if done < read || done > all || all != int64(len(content)) {
				t.Errorf("%d of %d bytes after %d", done, all, read)
			}
			read = done
		}
		err := table.Each(func([]Column) ([]int, error) { return []int{2, 1, 0}, nil }, func(r *Row) error {
			assert.Equal(t, lines[seen], r.At)
			assert.Equal(t, fmt.Sprint(seen), string(r.Field(2)))
			assert.Equal(t, want(seen), string(r.Field(1)))
			assert.Equal(t, fmt.Sprint(seen*seen), string(r.Field(0)))
			seen++
			return nil
		})
		if bad < 0 {
			assert.NoError(t, err)
			assert.Equal(t, rows, seen)
			assert.Equal(t, int64(len(content)), read)
		} else {
			assert.ErrorContains(t, err, fmt.Sprintf("%s:%d: a line ends as those of old Macs", name, lines[bad]))
			assert.Equal(t, bad, seen)
		}
	}
}

// randomText is text of so many letters, which gzip does not shrink much.
func randomText(letters int) string {
	random, text := rand.New(rand.NewPCG(1, 2)), make([]byte, letters)
	for k := range text {
		text[k] = 'a' + byte(random.IntN(26))
	}
	return string(text)
}
