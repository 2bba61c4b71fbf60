package tables

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// payment is a row of a list of edges, and twisted and retyped are the same with other columns and types.
type payment struct {
	Payer  string  `parquet:"payer"`
	Payee  string  `parquet:"payee"`
	Amount float64 `parquet:"amount"`
	Count  int64   `parquet:"count"`
}

type twisted struct {
	Count  int64   `parquet:"count"`
	Amount float64 `parquet:"amount"`
	Payee  string  `parquet:"payee,dict,zstd"`
	Payer  string  `parquet:"payer,dict,snappy"`
}

type retyped struct {
	Payer  string  `parquet:"payer"`
	Payee  string  `parquet:"payee"`
	Amount string  `parquet:"amount"`
	Count  float64 `parquet:"count"`
}

type short struct {
	Payer string `parquet:"payer"`
	Payee string `parquet:"payee"`
	Count int64  `parquet:"count"`
}

const vertices = 30

// payments are the rows of three parts.
func payments() (parts [3][]payment) {
	for k := range 90 {
		ends := [2]string{fmt.Sprint("c", k*7%vertices), fmt.Sprint("c", (k*k+3)%vertices)}
		parts[k/30] = append(parts[k/30], payment{ends[0], ends[1], float64(k) / 4, int64(k % 5)})
	}
	return parts
}

// textOf are payments as text, with a header or not.
func textOf(header string, rows []payment) string {
	var b strings.Builder
	b.WriteString(header)
	for _, p := range rows {
		fmt.Fprintf(&b, "%s,%s,%v,%d\n", p.Payer, p.Payee, p.Amount, p.Count)
	}
	return b.String()
}

func squeezed(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return string(w.EncodeAll([]byte(text), nil))
}

// customers is the table of their ends.
func customers(from, to int) string {
	var b bytes.Buffer
	b.WriteString("id,age,segment\n")
	for k := from; k < to; k++ {
		fmt.Fprintf(&b, "c%d,%d,%c\n", k, 20+k*3%50, 'a'+k%3)
	}
	return b.String()
}

// TestParts: a folder of parts, as warehouses write it, is the graph of one file of all rows.
func TestParts(t *testing.T) {
	const header = "payer,payee,amount,count\n"
	parts := payments()
	all := slices.Concat(parts[0], parts[1], parts[2])
	oneFile := func(edges string) *graph.Graph {
		files(t, map[string]string{"pay.csv": edges, "customers.csv": customers(0, vertices)})
		return readParts(t, "pay.csv", "customers.csv", "amount", "count")
	}
	want := oneFile(textOf(header, all))
	for name, layout := range map[string]map[string]string{
		"text of Spark": {
			"part-00000-8c-c000.csv": textOf(header, parts[0]), "_SUCCESS": "",
			"part-00001-8c-c000.csv": textOf(header, parts[1]), ".part-00000-8c-c000.csv.crc": "\x00x",
			"part-00002-8c-c000.csv": textOf(header, parts[2]),
		},
		"Parquet of Spark": {
			"part-00000-8c-c000.snappy.parquet": tableOf(t, parts[0]), "_SUCCESS": "",
			"part-00001-8c-c000.snappy.parquet": tableOf(t, parts[1]), "_metadata": "PAR1",
			"part-00002-8c-c000.snappy.parquet": tableOf(t, parts[2]),
		},
		"gzip of BigQuery": {
			"export-000000000000.csv.gz": graphtest.Zipped(t, textOf(header, parts[0])),
			"export-000000000001.csv.gz": graphtest.Zipped(t, textOf(header, parts[1])+textOf("", parts[2])),
		},
		"zstd": {
			"_0.csv": "", "0.csv.zst": squeezed(t, textOf(header, parts[0])),
			"1.csv.zst": "\x50\x2a\x4d\x18\x02\x00\x00\x00ab" + squeezed(t, textOf(header, parts[1])),
			"2.csv":     textOf(header, parts[2]),
		},
		"empty parts": {
			"1.csv": header, "2.csv": textOf(header, all), "3.csv.gz": graphtest.Zipped(t, header),
			"4.csv": header,
		},
		"empty parts of Parquet": {
			"1.parquet": tableOf[payment](t, nil), "2.parquet": tableOf(t, all),
			"3.parquet": tableOf[twisted](t, nil),
		},
		"another order in text": {
			"0.csv": textOf(header, parts[0]),
			"1.csv": turnedRound(textOf(header, slices.Concat(parts[1], parts[2]))),
		},
		"another order in Parquet": {
			"0.parquet": tableOf(t, parts[0]), "1.parquet": tableOf(t, twist(parts[1])),
			"2.parquet": tableOf(t, parts[2]),
		},
		"other types": {
			"0.parquet": tableOf(t, parts[0]), "1.parquet": tableOf(t, asOdd(parts[1])),
			"2.parquet": tableOf(t, parts[2]),
		},
		"one part": {"part-0.parquet": tableOf(t, all)},
	} {
		t.Run(name, func(t *testing.T) {
			files(t, in("pay", layout, map[string]string{
				"customers/0.csv": customers(0, 11), "customers/1.csv": customers(11, vertices),
			}))
			assert.Equal(t, want, readParts(t, "pay", "customers", "amount", "count"))
		})
	}

	days := []string{"2024-01-01", "2024-01-02 10:00", "2024-02-29"}
	var dated strings.Builder
	dated.WriteString("payer,payee,amount,count,day\n")
	hive, text := map[string]string{}, map[string]string{}
	for k, day := range days {
		for _, p := range parts[k] {
			fmt.Fprintf(&dated, "%s,%s,%v,%d,%s\n", p.Payer, p.Payee, p.Amount, p.Count, day)
		}
		folder := "day=" + strings.NewReplacer(" ", "%20", ":", "%3A").Replace(day)
		hive[folder+"/data_0.parquet"] = tableOf(t, parts[k])
		text[folder+"/data_0.csv"] = textOf(header, parts[k])
	}
	files(t, map[string]string{"pay.csv": dated.String(), "customers.csv": customers(0, vertices)})
	want = readParts(t, "pay.csv", "customers.csv", "amount", "day")
	for name, layout := range map[string]map[string]string{"Parquet": hive, "text": text} {
		t.Run("folders of Hive, "+name, func(t *testing.T) {
			files(t, in("pay", layout, map[string]string{"customers.csv": customers(0, vertices)}))
			assert.Equal(t, want, readParts(t, "pay", "customers.csv", "amount", "day"))
		})
	}
}

// TestFolderThatIsNamed: the name of the folder that is given itself makes no column, as in Spark, pyarrow
// and Polars. Who asks for the column is told to name the folder above.
func TestFolderThatIsNamed(t *testing.T) {
	const header = "payer,payee,amount,count\n"
	rows := textOf(header, payments()[0])
	leaf := map[string]string{"hour=7/0.csv": rows}
	files(t, in("pay/day=2024-01-31", leaf, map[string]string{"customers.csv": customers(0, vertices)}))
	assert.Equal(t, []string{"amount", "hour"}, readParts(t, "pay/day=2024-01-31", "customers.csv", "amount",
		"hour").Relations[0].NumberColumns.Features())
	g, err := Open(optionsOfParts("pay/day=2024-01-31", "customers.csv", "amount", "day"))
	if err == nil {
		err = g.Relations[0].Each(func(graph.Edges) error { return nil })
	}
	assert.Refused(t, err, "pay/day=2024-01-31/hour=7/0.csv:1: there is no further column day")
	assert.Equal(t, []string{"amount", "day"}, readParts(t, "pay", "customers.csv", "amount",
		"day").Relations[0].NumberColumns.Features())
}

// TestFoldersInFolders: each part has the values of its own folders, also where several share those above.
func TestFoldersInFolders(t *testing.T) {
	layout := map[string]string{"customers.csv": "id,x\nc0,1\nc1,2\nc2,3\nc3,4\n"}
	for k, path := range []string{
		"day=1/hour=2/zone=3/gate=4", "day=1/hour=2/zone=3/gate=5", "day=1/hour=2/zone=6/gate=7",
	} {
		layout["pay/"+path+"/0.csv"] = fmt.Sprintf("payer,payee\nc%d,c%d\n", k+1, k)
	}
	files(t, layout)
	o := optionsOfParts("pay", "customers.csv", "day", "hour", "zone", "gate")
	o.Label = ""
	assert.Equal(t, []float32{1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 6, 7}, read(t, o).Relations[0].Features.Dense)
}

// TestPartsAsLists: parts of one table that are named as lists of edges are no relations, unless they have
// names.
func TestPartsAsLists(t *testing.T) {
	const header = "payer,payee,amount,count\n"
	rows := textOf(header, payments()[0])
	layout := map[string]string{"customers.csv": customers(0, vertices)}
	for _, name := range []string{
		"pay/day=1/0.csv", "pay/day=2/0.csv", "owe/day=1/0.csv", "k=1.csv", "k=2.csv",
	} {
		layout[name] = rows
	}
	files(t, layout)
	for _, c := range []struct {
		lists []string
		want  string // "": it is read
	}{
		{
			[]string{"pay/day=1/0.csv", "pay/day=2/0.csv"},
			"pay/day=1/0.csv and pay/day=2/0.csv: are parts of one table: name its folder, pay, or name relations",
		},
		{[]string{"pay/day=1", "pay/day=2"}, "pay/day=1 and pay/day=2: are parts of one table: name its folder, pay"},
		{[]string{"first=pay/day=1", "second=pay/day=2"}, ""},
		{[]string{"k=1.csv", "k=2.csv"}, ""},
		{[]string{"pay/day=1/0.csv", "owe=owe/day=1/0.csv"}, ""},
	} {
		o := optionsOfParts("pay", "customers.csv")
		o.Edges = c.lists
		_, err := Open(o)
		if c.want == "" {
			require.NoError(t, err)
		} else {
			assert.Refused(t, err, c.want)
		}
	}
}

// TestPartsRefused: a part that does not fit is refused by its name.
func TestPartsRefused(t *testing.T) {
	const header = "payer,payee,amount,count\n"
	parts := payments()
	first := textOf(header, parts[0])
	for _, c := range []struct {
		layout map[string]string
		want   string
	}{
		{map[string]string{"0.csv": first, "1.csv": textOf("", parts[1])}, "pay/1.csv:1: there is a column"},
		{
			map[string]string{"0.parquet": tableOf(t, parts[0]), "1.parquet": tableOf(t, asShort(parts[1]))},
			`pay/1.parquet: there is no column "amount", which pay/0.parquet has`,
		},
		{
			map[string]string{"0.csv": first, "1.parquet": tableOf(t, parts[0])},
			"pay/1.parquet: its name ends otherwise than that of pay/0.csv",
		},
		{map[string]string{"0.csv": first, "1.csv": tableOf(t, parts[0])}, "pay/1.csv: is Parquet, and pay/0.csv"},
		{map[string]string{"0.csv": first, "1.csv.tmp": first}, "pay/1.csv.tmp: its name ends otherwise than"},
		{map[string]string{"0.csv": first, "0.csv.crc": "x"}, "pay/0.csv.crc: its name ends otherwise than"},
		{map[string]string{"0.csv": first, "README.md": "x"}, "pay/README.md: its name ends otherwise than"},
		{map[string]string{"0.csv": first, "more/1.csv": first}, "pay/more: is a folder among the parts"},
		{map[string]string{"amount=1/0.csv": first}, `pay/amount=1/0.csv:1: column "amount" is in the file, and`},
		{
			map[string]string{"0.csv": first, "1.csv": first + "c1,c2,x,3\n"},
			`pay/1.csv:32: column amount: "x" is no finite`,
		},
		{map[string]string{"0.csv": first, "1.csv": first + "c1,c2\n"}, "pay/1.csv:32: 2 columns, where"},
		{map[string]string{"day=1/0.csv": "c1,c2\nc3,c4\n"}, "pay/day=1/0.csv:1: "},
		{
			map[string]string{"0.parquet": tableOf(t, parts[0]), "1.parquet": "PAR"},
			"pay/1.parquet: is no Parquet, and pay/0.parquet is: a table has parts of one kind, and none that is cut",
		},
		{
			map[string]string{
				"0.csv": "payer,payee,amount,count,no", "1.csv": "payer,payee,amount,count,note\nc1,c2,3,4,x\n",
			},
			"pay/0.csv: has no row, and other columns than pay/1.csv, as a file that is cut short",
		},
		{
			map[string]string{"0.csv": first, "1.csv": "payer,payee,amount,count,no"},
			`pay/1.csv:1: there is a column "no"`,
		},
		{map[string]string{"_SUCCESS": ""}, "pay: is a folder without a file of a table"},
		{map[string]string{"0.csv": "", "1.csv": first}, "pay/0.csv: has neither a row nor names of columns, as a file that is cut short"},
		{map[string]string{"0.csv": first, "1.csv": ""}, "pay/1.csv: has neither a row nor names of columns, as a file that is cut short"},
		{
			map[string]string{"0.csv": first, "1.csv.gz": graphtest.Zipped(t, "")},
			"pay/1.csv.gz: has neither a row nor names of columns, as a file that is cut short: restore it, remove it, or begin its name with _",
		},
		{map[string]string{"0.csv": first, "1.csv": "# 3\n\n"}, "pay/1.csv: has neither a row nor names of columns, as a file"},
		{
			map[string]string{"0.parquet": tableOf(t, parts[0]), "1.parquet": ""},
			"pay/1.parquet: has neither a row nor names of columns, as a file that is cut short",
		},
		{map[string]string{"0.csv": first, "1.csv.gz": graphtest.Zipped(t, first)[:40]}, "pay/1.csv.gz:"},
		{map[string]string{"0.csv": first, "1.csv.zst": squeezed(t, first)[:40]}, "pay/1.csv.zst:"},
		{
			map[string]string{"0.csv": first, "1.csv": "payer,payer,amount,count\n"},
			"pay/1.csv:1: there is no column",
		},
	} {
		files(t, in("pay", c.layout, map[string]string{"customers.csv": customers(0, vertices)}))
		g, err := Open(optionsOfParts("pay", "customers.csv", "amount", "count"))
		if err == nil {
			err = g.Relations[0].Each(func(graph.Edges) error { return nil })
		}
		assert.Refused(t, err, c.want)
	}
}

// TestPartsThatAreNoFiles: a part that is no file is refused by its name, among edges and vertices, and not
// passed over. Its reader does not wait for a pipe. A folder with it still looks like one table.
func TestPartsThatAreNoFiles(t *testing.T) {
	const header = "payer,payee,amount,count\n"
	link := func(to string) func(string) error {
		return func(path string) error { return os.Symlink(to, path) }
	}
	for want, make := range map[string]func(path string) error{
		"is a named pipe, not a file": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"is a socket, not a file": func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
		"is a device, not a file":                link("/dev/null"),
		"no such file or directory":              link("nothing.csv"),
		"is a folder among the parts of a table": link(".."),
		"too many levels of symbolic links":      link("part-1.csv"),
	} {
		for _, folder := range []string{"pay", "customers"} {
			files(t, map[string]string{
				"pay/part-0.csv":       textOf(header, payments()[0]),
				"customers/part-0.csv": customers(0, vertices),
			})
			path := filepath.Join(folder, "part-1.csv")
			require.NoError(t, make(path))
			g, err := Open(optionsOfParts("pay", "customers", "amount"))
			if err == nil {
				err = g.Relations[0].Each(func(graph.Edges) error { return nil })
			}
			assert.RefusedFor(t, err, path+": ", want)
			assert.Equal(t, !strings.Contains(want, "folder"), AreParts(folder), want)
		}
	}
}

// TestCopies: a part of the same bytes as another one is named, and refused among vertices, which have one
// row each. It is none in folders of other values.
func TestCopies(t *testing.T) {
	const header = "payer,payee,amount,count\n"
	parts := payments()
	first, all := textOf(header, parts[0]), customers(0, vertices)
	for _, c := range []struct {
		edges, vertices map[string]string
		warnings        []string
		refused         string
	}{
		{
			edges: map[string]string{
				"part-0.csv": first, "part-0 (copy).csv": first, "part-1.csv": textOf(header, parts[1]),
			},
			warnings: []string{"pay/part-0.csv: holds the same rows as pay/part-0 (copy).csv, and each counts " +
				"twice: remove it, or begin its name with _, if it is a copy"},
		},
		{edges: map[string]string{"0.csv": first, "_0.csv": first, ".0.csv": first}},
		{edges: map[string]string{"day=1/0.csv": first, "day=2/0.csv": first}},
		{edges: map[string]string{"0.csv": first, "1.csv": strings.Replace(first, "29", "28", 1)}},
		{
			edges: map[string]string{"0.csv": first}, vertices: map[string]string{"0.csv": all, "1.csv": all},
			refused: "customers/1.csv: holds the same rows as customers/0.csv, and each vertex has one: remove it",
		},
	} {
		if c.vertices == nil {
			c.vertices = map[string]string{"0.csv": all}
		}
		files(t, in("pay", c.edges, in("customers", c.vertices, map[string]string{})))
		o := optionsOfParts("pay", "customers")
		if c.refused != "" {
			_, err := Open(o)
			assert.Refused(t, err, c.refused)
			continue
		}
		assert.Equal(t, c.warnings, read(t, o).Warnings)
	}
}

// TestWithoutHeaders: parts whose first lines are edges are one list of them.
func TestWithoutHeaders(t *testing.T) {
	files(t, map[string]string{
		"all.csv": "0,1\n2,0\n1,2\n", "parts/0.csv": "0,1\n2,0\n", "parts/1.csv": "1,2\n",
	})
	want := read(t, Options{Edges: []string{"all.csv"}})
	got := read(t, Options{Edges: []string{"parts"}})
	assert.Equal(t, want.Relations, got.Relations)
	require.NoError(t, os.WriteFile("parts/2.csv", []byte("1,2,3\n"), 0o666))
	g, err := Open(Options{Edges: []string{"parts"}})
	require.NoError(t, err)
	err = g.Relations[0].Each(func(graph.Edges) error { return nil })
	assert.Refused(t, err, "parts/2.csv:1: 3 columns, where parts/0.csv has 2")
}

func optionsOfParts(edges, vertices string, features ...string) Options {
	return Options{
		Edges: []string{edges}, Vertices: []string{vertices}, Source: []string{"payer"},
		Target: []string{"payee"}, Label: "segment", EdgeFeatures: features,
	}
}

// readParts is the graph without the names of its files.
func readParts(t *testing.T, edges, vertices string, features ...string) *graph.Graph {
	t.Helper()
	g := read(t, optionsOfParts(edges, vertices, features...))
	g.Provenance, g.Notes, g.Types[0].Table.Path = "", nil, ""
	return g
}

// in are files in a folder, and others beside it.
func in(folder string, all, others map[string]string) map[string]string {
	moved := maps.Clone(others)
	for name, content := range all {
		moved[folder+"/"+name] = content
	}
	return moved
}

// turnedRound has the columns of a text the other way round.
func turnedRound(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for k, line := range lines {
		fields := strings.Split(line, ",")
		slices.Reverse(fields)
		lines[k] = strings.Join(fields, ",") + "\n"
	}
	return strings.Join(lines, "")
}

func twist(rows []payment) (all []twisted) {
	for _, p := range rows {
		all = append(all, twisted{p.Count, p.Amount, p.Payee, p.Payer})
	}
	return all
}

func asOdd(rows []payment) (all []retyped) {
	for _, p := range rows {
		all = append(all, retyped{p.Payer, p.Payee, fmt.Sprint(p.Amount), float64(p.Count)})
	}
	return all
}

func asShort(rows []payment) (all []short) {
	for _, p := range rows {
		all = append(all, short{p.Payer, p.Payee, p.Count})
	}
	return all
}

// TestAreParts: a command that is given a folder takes it for one table where its files look like parts.
func TestAreParts(t *testing.T) {
	for layout, want := range map[string]bool{
		"part-00000-1f2e-c000.csv part-00001-77aa-c000.csv _SUCCESS": true,
		"part-0.parquet": true, "data_0.parquet data_1.parquet": true,
		"export-000000000000.csv.gz export-000000000001.csv.gz": true, "a.csv b.csv _SUCCESS": true,
		"day=1/a.csv day=2/b.csv": true, "0001_part_00.parquet 0000_part_00.parquet": true,
		"6f1c2d3e-4bbb-8ccc-0123456789ab.parquet 9f1c2d3e-4bbb-8ccc-0123456789ab.parquet": true,
		"edges.csv customers.csv": false, "edges.csv": false, "part-0.csv part-1.parquet": false,
		"part-0.npy part-1.npy": false, "": false, "more/part-0.csv": false,
		"edges1.csv customers1.csv": false, "train.csv test.csv": false, "train-1.csv test-1.csv": false,
		"part-0.csv notes.csv": false, "a1b2.csv c3d4.csv": false, "000000_0 000001_0": false,
		"part-r-00000-5c.gz.parquet part-r-00001-7f.gz.parquet": true, "part-0.csv part-0(copy).csv": true,
		"20240101_000_00001_abcde_6f1c.gz.csv 20240101_000_00002_fghij_77aa.gz.csv": true,
		"data_0_0_0.csv.gz data_0_1_0.csv.gz":                                       true, "part.0.parquet part.1.parquet _tmp.csv": true,
		"day=1/part-0.csv day=1/.part-1.csv.crc": true, "day=1/a.csv b.csv": false,
	} {
		all := map[string]string{}
		for _, name := range strings.Fields(layout) {
			all["folder/"+name] = "a,b\n"
		}
		files(t, all)
		if got := AreParts("folder"); got != want {
			t.Errorf("%s: %v, want %v", layout, got, want)
		}
	}
}
