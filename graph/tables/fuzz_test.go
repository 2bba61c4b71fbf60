package tables

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"weft/graph/columns"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/refusal"
	"weft/internal/require"
)

// write reads two files, and writes the store of their graph.
func write(vertices, edges, store string) error {
	s, err := Open(Options{
		Edges: []string{edges}, Vertices: []string{vertices}, Label: "y",
		Choices: columns.Choices{Most: 3, Cyclic: true},
	})
	if err == nil {
		_, err = s.Write(store)
	}
	return err
}

// refusedWhole checks that files are read, or refused with nothing left of a store.
func refusedWhole(t *testing.T, vertices, edges string) {
	t.Helper()
	err := write(vertices, edges, "store")
	if err == nil {
		require.NoError(t, os.RemoveAll("store"))
		return
	}
	if !refusal.Is(err) || bytes.ContainsRune([]byte(err.Error()), '\n') {
		t.Errorf("%v is not a refusal of one line", err)
	}
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Equal(t, 2, len(left)) // the files
}

var odd = "id,y,d,x,c\n" +
	"a,1,2023-01-31T10:00Z,3,\"Rome, It\"\n" +
	"\"b\"\"\nc\",0,2023/02/01,,Paris\n" +
	"#d,,1970-01-01 00:00:00+01,-1e3,Rome\n"

var oddEdges = "# by hand\nsrc;dst\na;#d\n#d;a\n\"e\";a\n"

// FuzzText: whatever tables of text hold, they are read, or refused in a line.
func FuzzText(f *testing.F) {
	f.Add(odd, oddEdges)
	f.Add("id;y;x\na;1,5;3,5\nb;2;1.5\n", "a b\nb a\n")
	f.Add("\xef\xbb\xbf,y\r\na,x\r\nb,z\r\n", "u,v,w\n")
	f.Add("\ty\n\"\"\t\"\n\"\n", "\xff\xfea\x00")
	f.Fuzz(func(t *testing.T, vertices, edges string) {
		files(t, map[string]string{"v.csv": vertices, "e.csv": edges})
		refusedWhole(t, "v.csv", "e.csv")
	})
}

// FuzzAlone: whatever a list without a table holds, as text or Parquet, it is read, or refused in a line.
func FuzzAlone(f *testing.F) {
	for _, seed := range []string{
		"0 1\n2 0\n", "source,target,w\n0,1,.5\n", "\"a\"\t\"b\"\n", "# x\n1;2\r\n",
		graphtest.Zipped(f, "0 1\n"),
		"u,v,weight\n0,1,1970-01-02\n", tableOf(f, []plainEdge{{0, 1}, {2, 0}, {0, 1}}),
		tableOf(f, []weightedEdge{{"x", 1, 0, .5}, {"y", 0, 2, -.25}, {"x", 1, 0, 3}}),
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, content string, names bool) {
		g, err := readList(list{Path: graphtest.File(t, "edges.csv", content), Strings: names})
		if err != nil {
			assert.Refused(t, err, "")
			return
		}
		if names && len(g.Types[0].Names) != g.Vertices() {
			t.Errorf("%d names for %d vertices", len(g.Types[0].Names), g.Vertices())
		}
	})
}

type oddRow struct {
	ID   string   `parquet:"id,dict,zstd"`
	Y    *int32   `parquet:"y,optional"`
	Day  int32    `parquet:"d,date"`
	X    *float64 `parquet:"x,optional,snappy"`
	Cent int64    `parquet:"cent,decimal(2:18)"`
	C    *string  `parquet:"c,optional,dict"`
}

// oddParquet is a table of vertices in Parquet.
func oddParquet(t testing.TB) string {
	t.Helper()
	var file bytes.Buffer
	y, x, rome := int32(1), 2.5, "Rome"
	require.NoError(t, parquet.Write(&file, []oddRow{
		{ID: "a", Y: &y, Day: 365, X: &x, Cent: -50, C: &rome},
		{ID: "#d", Day: -1, Cent: 7},
		{ID: "b", C: &rome},
	}))
	return file.String()
}

// FuzzParquet: whatever a table of Parquet holds, it is read, or refused in a line.
func FuzzParquet(f *testing.F) {
	f.Add(oddParquet(f))
	for _, name := range []string{"testdata/pyarrow.parquet", "testdata/int96.parquet"} {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, vertices string) {
		files(t, map[string]string{"v.parquet": vertices, "e.csv": oddEdges})
		refusedWhole(t, "v.parquet", "e.csv")
	})
}

// TestDamage: a file that is cut short, or of which a byte has other bits, is read or refused in a line, and
// leaves nothing of a store.
func TestDamage(t *testing.T) {
	for name, whole := range map[string]string{"v.csv": odd, "v.parquet": oddParquet(t)} {
		files(t, map[string]string{name: whole, "e.csv": oddEdges})
		for k := 0; k < len(whole); k += 1 + len(whole)/50 {
			for _, damaged := range []string{whole[:k], whole[:k] + string(whole[k]^0x81) + whole[k+1:]} {
				require.NoError(t, os.WriteFile(name, []byte(damaged), 0o600))
				refusedWhole(t, name, "e.csv")
			}
		}
	}
}

// TestFullDisk: a store for which a byte is missing on the disk is an error, and nothing of it is left.
func TestFullDisk(t *testing.T) {
	files(t, map[string]string{"v.csv": odd, "e.csv": oddEdges})
	fulldisk.LastByte(t, func(dir string) error {
		err := write("v.csv", "e.csv", dir+"/store")
		if left, _ := os.ReadDir(dir); err != nil && len(left) > 0 {
			t.Errorf("%v is left", left)
		}
		return err
	})
}

// TestFullDiskSoon: so is one whose edges, or first file, do not fit while they are sorted and written.
func TestFullDiskSoon(t *testing.T) {
	files(t, map[string]string{"v.csv": odd, "e.csv": oddEdges})
	fulldisk.Run(t, func(full func(uint64, func())) {
		for _, room := range []uint64{0, 7, 16, 25, 100} {
			var err error
			full(room, func() { err = write("v.csv", "e.csv", "store") })
			left, _ := os.ReadDir(".")
			if !errors.Is(err, unix.EFBIG) || len(left) != 2 {
				t.Errorf("room for %d bytes: %v, and %v", room, err, left)
			}
		}
	})
}
