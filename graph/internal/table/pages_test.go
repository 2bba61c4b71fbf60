package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"weft/internal/assert"
	"weft/internal/require"
)

// The claims of a page: each damage keeps the file's other lengths right.
func TestLyingPagesAreRefused(t *testing.T) {
	assert.Error(t, checkRuns([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, 1, 10),
		"a run of two billion values in a page of ten")
	assert.NoError(t, checkRuns([]byte{0x03, 1}, 1, 8), "a packed group of eight")
	assert.Error(t, checkRuns([]byte{0x03}, 1, 8), "a packed group without its bytes")
	delta := binary.AppendUvarint([]byte{0x80, 1, 4}, 1<<31)
	assert.Error(t, checkValues(5, delta, 10), "two billion delta-packed values in a page of ten")
	_, err := expand(1, binary.AppendUvarint(nil, 1<<32-1), 100)
	assert.Error(t, err, "a snappy page that claims four gigabytes")
	_, err = expand(7, nil, 100)
	assert.Error(t, err, "a codec that is not read")
}

type noted struct {
	Note string `parquet:"note,gzip"`
}

type squeezed struct {
	Note string `parquet:"note,zstd"`
}

type listed struct {
	Note string `parquet:"note,gzip,dict"`
}

// TestLongTexts: what a small file can make of text is bounded, and the refusal names rows and column.
func TestLongTexts(t *testing.T) {
	long, half := strings.Repeat("x", longest+1), strings.Repeat("x", longest/2)
	for name, c := range map[string]struct {
		write func(to io.Writer) error
		want  string // empty: it is read
	}{
		"a text in a page": {
			rowsOf([]noted{{"a"}, {"b"}, {long}, {"c"}}), `row 3: column "note": a text of more than 1048576 bytes`,
		},
		"texts in a page": {
			rowsOf([]noted{{"a"}, {long + half}, {long + half}}, parquet.MaxRowsPerRowGroup(1)),
			`column "note": rows 2 to 2: a text of more than 1048576 bytes`,
		},
		"a page of several": {
			rowsOf([]noted{{long[1:]}, {long[1:]}, {long + half}}, parquet.PageBufferSize(longest)),
			`column "note": rows 3 to 3: a text of more than 1048576 bytes`,
		},
		"a text that shrinks to almost nothing": {
			rowsOf([]squeezed{{strings.Repeat(long, 20)}}),
			`column "note": rows 1 to 1: a text of more than 1048576 bytes`,
		},
		"a text in a dictionary": {
			rowsOf([]listed{{long + half}, {long + half}, {long + half}}),
			`column "note": rows 1 to 3: a text of more than 1048576 bytes`,
		},
		"a text in a later dictionary": {
			rowsOf([]listed{{"a"}, {"b"}, {long + half}, {long + half}}, parquet.MaxRowsPerRowGroup(2)),
			`column "note": rows 3 to 4: a text of more than 1048576 bytes`,
		},
		"many texts": {
			rowsOf(slices.Repeat([]noted{{half}}, 60), parquet.PageBufferSize(64<<20)),
			`column "note": rows 1 to 60: 31457454 bytes of text shrink to`,
		},
		"many texts in a dictionary": {rowsOf(slices.Repeat([]listed{{half}}, 60)), ""},
	} {
		path := filepath.Join(t.TempDir(), "t.parquet")
		file, err := os.Create(path)
		require.NoError(t, err)
		defer file.Close()
		require.NoError(t, c.write(file))
		_, err = file.Seek(0, io.SeekStart)
		require.NoError(t, err)
		table, rows := Table{Path: "t.parquet"}, 0
		err = table.EachOf(file, func([]Column) ([]int, error) { return []int{0}, nil },
			func(*Row) error { rows++; return nil })
		if c.want == "" {
			require.NoError(t, err)
			assert.Equal(t, 60, rows)
		} else if err == nil || !strings.HasPrefix(err.Error(), "t.parquet: "+c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

type equal struct {
	Kind int64 `parquet:"kind,dict,zstd"`
}

// claiming is a row group that claims more rows than it has.
type claiming struct {
	parquet.RowGroup
	rows int64
}

func (c claiming) NumRows() int64 { return c.rows }

// TestEqualRows: a file of many equal rows is read, though they take a fraction of a bit each. One that
// claims more than any file of its size has is refused.
func TestEqualRows(t *testing.T) {
	const rows = 3 << 20
	var to bytes.Buffer
	require.NoError(t, rowsOf(slices.Repeat([]equal{{7}}, rows), parquet.MaxRowsPerRowGroup(1<<20))(&to))
	if to.Len() > (rows-1<<20)/64 {
		t.Fatalf("%d rows take %d bytes", rows, to.Len())
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	require.NoError(t, os.WriteFile(path, to.Bytes(), 0o666))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	table, read := Table{Path: path}, 0
	require.NoError(t, table.EachOf(file, func([]Column) ([]int, error) { return []int{0}, nil },
		func(*Row) error { read++; return nil }))
	assert.Equal(t, rows, read)
	size := int64(to.Len())
	g := &groups{Table: &table, size: size, most: mostRows(size)}
	assert.Refused(t, g.open(claiming{rows: 1<<20 + size<<12 + 1}), "claims more rows than a file of")
}

func rowsOf[T any](rows []T, options ...parquet.WriterOption) func(io.Writer) error {
	options = append(options, parquet.SkipPageStatistics("note"))
	return func(to io.Writer) error {
		w := parquet.NewGenericWriter[T](to, options...)
		for row := range slices.Chunk(rows, 1) {
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		return w.Close()
	}
}

// TestBatches: many columns and many row groups take little memory beside their values.
func TestBatches(t *testing.T) {
	const groups, columns = 300, 40
	var b bytes.Buffer
	names := map[string]parquet.Node{}
	for k := range columns {
		names[fmt.Sprintf("c%02d", k)] = parquet.Leaf(parquet.Int64Type)
	}
	schema := parquet.NewSchema("t", parquet.Group(names))
	w := parquet.NewGenericWriter[any](&b, schema)
	rows := make([]parquet.Row, 3)
	for g := range groups {
		for i := range rows {
			rows[i] = nil
			for k := range columns {
				rows[i] = append(rows[i], parquet.Int64Value(int64(3*g+i+k)).Level(0, 0, k))
			}
		}
		_, err := w.WriteRows(rows)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "t.parquet")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o666))
	table, at := Table{Path: path}, int64(0)
	choose := func(all []Column) (order []int, err error) {
		for k := range all {
			order = append(order, k)
		}
		return order, nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, table.Each(choose, func(r *Row) error {
		for k := range columns {
			if n, there := r.Integer(k); !there || n != at+int64(k) {
				t.Fatalf("row %d: column %d is %d", at, k, n)
			}
		}
		at++
		return nil
	}))
	runtime.ReadMemStats(&after)
	assert.Equal(t, int64(3*groups), at)
	// 24 bytes a value in batches of 1,024 rows would be 885 MB
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 150<<20 {
		t.Errorf("%d bytes were allocated", taken)
	}
}
