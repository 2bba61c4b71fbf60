package table

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"weft/internal/refusal"
	"weft/internal/require"
)

type mixed struct {
	ID   string   `parquet:"id,dict,zstd"`
	N    *int32   `parquet:"n,optional"`
	Day  int32    `parquet:"d,date"`
	X    *float64 `parquet:"x,optional,snappy"`
	Cent int64    `parquet:"cent,decimal(2:18)"`
	C    *string  `parquet:"c,optional,dict"`
}

// TestDamagedParquet: a file of Parquet that is cut short, or of which some bits are others, is read or
// refused in a line that names it and a way out.
func TestDamagedParquet(t *testing.T) {
	n, x, rome, oslo := int32(1), 2.5, "Rome", "Oslo"
	var odd bytes.Buffer
	require.NoError(t, parquet.Write(&odd, []mixed{
		{"a", &n, 365, &x, -50, &rome}, {"d", nil, -1, nil, 7, nil}, {"b", nil, 0, nil, 0, &oslo},
	}))
	arrow, err := os.ReadFile(filepath.Join("..", "..", "tables", "testdata", "pyarrow.parquet"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "t.parquet")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	table, read, refused, caught := Table{Path: "t.parquet"}, 0, 0, 0
	all := func(columns []Column) (order []int, err error) {
		for k, c := range columns {
			if c.Kind != Nested {
				order = append(order, k)
			}
		}
		return order, nil
	}
	try := func(content []byte, what string, at int) {
		t.Helper()
		require.NoError(t, file.Truncate(0))
		_, err := file.WriteAt(content, 0)
		require.NoError(t, err)
		_, err = file.Seek(0, 0)
		require.NoError(t, err)
		err = table.EachOf(file, all, func(r *Row) error {
			for k := range r.Len() {
				r.Field(k)
				r.Integer(k)
				_, _ = r.Number(k)
			}
			return nil
		})
		if err == nil {
			read++
			return
		}
		refused++
		line := err.Error()
		if strings.Contains(line, "t.parquet: is a damaged Parquet file") {
			caught++
		}
		// A way out, and no word of a library or of a fault.
		out := regexp.MustCompile(`: (restore the file, or write it again|shorten it, or leave|write (it|them) )`)
		raw := regexp.MustCompile(`runtime|index out|slice|pointer|thrift|FIELD|decoding|magic|corrupted|\n`)
		named := strings.HasPrefix(line, "t.parquet: ")
		if !refusal.Is(err) || !named || !out.MatchString(line) || raw.MatchString(line) {
			t.Errorf("%s at %d: %s", what, at, line)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, whole := range [][]byte{odd.Bytes(), arrow} {
		for range 250 {
			at := random.IntN(len(whole))
			damaged := bytes.Clone(whole)
			damaged[at] ^= byte(1 << random.IntN(8))
			try(damaged, "a bit", at)
			for range 3 {
				damaged[random.IntN(len(whole))] = byte(random.IntN(256))
			}
			try(damaged, "some bytes", at)
		}
		for k := 0; k < len(whole); k += 1 + len(whole)/60 {
			try(whole[:k], "cut short", k)
			try(append(bytes.Clone(whole[:k]), whole[min(k+1+k%7, len(whole)):]...), "a gap", k)
		}
	}
	if read < 100 || refused < 500 || caught == 0 {
		t.Errorf("%d are read, %d refused, %d of them where the library panics", read, refused, caught)
	}
}
