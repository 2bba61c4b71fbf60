package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"weft/cmd/weft/internal/cli"
	"weft/graph"
	"weft/internal/require"
)

// payment is an edge of a table in Parquet.
type payment struct {
	Payer  string  `parquet:"payer,dict,zstd"`
	Payee  string  `parquet:"payee"`
	Amount float64 `parquet:"amount,snappy"`
	Day    int32   `parquet:"day,date"`
	Fraud  *string `parquet:"fraud,optional,dict"`
}

// payments are the lines of a table of edges, of which one in eight has no label, with the names of columns
// before them, and the same edges in Parquet.
func payments(t *testing.T, draw *rand.Rand) (lines []string, table []byte) {
	t.Helper()
	lines = []string{"payer,payee,amount,day,fraud"}
	var rows []payment
	for range 24 + draw.IntN(8) {
		amount, day, label := draw.IntN(500), draw.IntN(28)+1, []string{"no", "yes"}[draw.IntN(2)]
		p := payment{
			Payer: fmt.Sprintf("c%d", draw.IntN(9)), Payee: fmt.Sprintf("c%d", draw.IntN(9)),
			Amount: float64(amount) / 4, Day: 19723 + int32(day), Fraud: &label,
		}
		if draw.IntN(8) == 0 {
			label, p.Fraud = "", nil
		}
		rows = append(rows, p)
		lines = append(lines, fmt.Sprintf("%s,%s,%v,2024-01-%02d,%s", p.Payer, p.Payee, p.Amount, day, label))
	}
	var file bytes.Buffer
	require.NoError(t, parquet.Write(&file, rows))
	return lines, file.Bytes()
}

// oddValues are values that a table of edges cannot have, or hardly.
var oddValues = []string{
	"", "NaN", "inf", "-1e400", "1e39", "0x1p3", "1,5", "\"", "\"a", "a\"b", "\x00", "\xff\xfe", "\u202e",
	"zed", " c1 ",
	"2024-13-45", "0000-00-00", "99999-01-01", "12/31/2024", "-9223372036854775809", strings.Repeat("9", 400),
	strings.Repeat("x", 70000), "c1\nc2", "c1\tc2", "# c1", "=1+1", "null", "true", "1;2",
}

// damageLines are ways to damage the lines of a table of edges, of which the first has the names of columns.
var damageLines = []func(lines []string, draw *rand.Rand) []string{
	func(lines []string, draw *rand.Rand) []string { // a value
		row, column := draw.IntN(len(lines)), draw.IntN(5)
		fields := strings.Split(lines[row], ",")
		fields[column%len(fields)] = oddValues[draw.IntN(len(oddValues))]
		lines[row] = strings.Join(fields, ",")
		return lines
	},
	func(lines []string, draw *rand.Rand) []string { // a column, in all rows or all but the first
		column, with := draw.IntN(5), oddValues[draw.IntN(len(oddValues))]
		for row := 1; row < len(lines); row++ {
			fields := strings.Split(lines[row], ",")
			fields[column%len(fields)] = with
			lines[row] = strings.Join(fields, ",")
		}
		return lines
	},
	func(lines []string, draw *rand.Rand) []string { // a column that is not there
		column := draw.IntN(5)
		for row := range lines {
			fields := strings.Split(lines[row], ",")
			lines[row] = strings.Join(slices.Delete(fields, column%len(fields), column%len(fields)+1), ",")
		}
		return lines
	},
	func(lines []string, draw *rand.Rand) []string { // two columns of one name, or one without
		names := strings.Split(lines[0], ",")
		names[draw.IntN(len(names))] = []string{names[draw.IntN(len(names))], "", " ", "Fraud"}[draw.IntN(4)]
		lines[0] = strings.Join(names, ",")
		return lines
	},
	func(lines []string, draw *rand.Rand) []string { // a row with more or fewer fields
		row := draw.IntN(len(lines))
		if draw.IntN(2) == 0 {
			lines[row] += ",more"
		} else {
			lines[row] = lines[row][:strings.LastIndexByte(lines[row]+",", ',')]
		}
		return lines
	},
	func(lines []string, draw *rand.Rand) []string { // one class, a class of one edge, many classes, none
		way := draw.IntN(4)
		for row := 1; row < len(lines); row++ {
			at := strings.LastIndexByte(lines[row], ',')
			label := []string{"no", "no", fmt.Sprint("k", row), ""}[way]
			if way == 1 && row == 1 {
				label = "yes"
			}
			lines[row] = lines[row][:at+1] + label
		}
		return lines
	},
	func(lines []string, draw *rand.Rand) []string { // no edges, or one, or two
		return lines[:min(len(lines), 1+draw.IntN(3))]
	},
	func(lines []string, _ *rand.Rand) []string { return lines[1:] }, // no names of columns
	func(lines []string, draw *rand.Rand) []string { // names in the middle, or rows before them
		at := draw.IntN(len(lines))
		return slices.Insert(slices.Clone(lines), at, lines[0], "")
	},
	func(lines []string, draw *rand.Rand) []string { // another separator, in one row or all
		from, to := draw.IntN(len(lines)), len(lines)
		if draw.IntN(2) == 0 {
			to = from + 1
		}
		for row := from; row < to; row++ {
			lines[row] = strings.ReplaceAll(lines[row], ",", []string{";", "\t", " ", "|"}[draw.IntN(4)])
		}
		return lines
	},
}

// damaged is a table of edges as text or, where the name of the file ends so, in Parquet, that is damaged.
func damaged(t *testing.T, draw *rand.Rand) (name string, content []byte) {
	t.Helper()
	lines, table := payments(t, draw)
	name = "e.csv"
	switch draw.IntN(8) {
	case 0:
		name, content = "e.parquet", table
	case 1:
		content = []byte(strings.Join(lines, "\r\n") + "\r\n")
	default:
		for range 1 + draw.IntN(2) {
			lines = damageLines[draw.IntN(len(damageLines))](lines, draw)
			if len(lines) == 0 {
				break
			}
		}
		return name, []byte(strings.Join(lines, "\n") + "\n")
	}
	at := draw.IntN(len(content))
	switch draw.IntN(4) {
	case 0:
		return name, content[:at]
	case 1:
		content[at] ^= byte(1 + draw.IntN(255))
	case 2:
		clear(content[at:min(len(content), at+8)])
	default:
		content = slices.Concat(content[:at], content[draw.IntN(at+1):])
	}
	return name, content
}

// TestDamagedEdges: a damaged table of edges with labels is learned, and one of new edges scored, or refused
// in a line. What is refused leaves nothing half-written.
func TestDamagedEdges(t *testing.T) {
	t.Setenv("WEFT_CACHE", t.TempDir())
	t.Chdir(t.TempDir())
	lines, _ := payments(t, rand.New(rand.NewPCG(1, 1)))
	var people strings.Builder
	fmt.Fprintln(&people, "id,age")
	for v := range 9 {
		fmt.Fprintf(&people, "c%d,%d\n", v, 20+v)
	}
	for name, content := range map[string]string{
		"people.csv": people.String(), "whole.csv": strings.Join(lines, "\n") + "\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	train := strings.Fields("--source payer --target payee --vertices-from people.csv --edge-label fraud " +
		"--split random:60/20/20 --hidden 4 --epochs 1 --threads 1 --out")
	runWeft(t, slices.Concat([]string{"train", "whole.csv"}, train, []string{"whole"})...)
	kept, err := fs.Glob(os.DirFS("."), "*")
	require.NoError(t, err)

	done := map[bool]int{}
	for k := range 500 {
		name, content := damaged(t, rand.New(rand.NewPCG(80, uint64(k))))
		require.NoError(t, os.WriteFile(name, content, 0o600))
		args := slices.Concat([]string{"train", name}, train, []string{"run"})
		learn := k%2 == 0
		if !learn {
			args = []string{"predict", "whole", "--add-edges", name, "--out", "scores.csv"}
		}
		var stderr, stdout bytes.Buffer
		root, started := newRoot(args[0]) // cobra keeps the flags of all that were made
		root.SetArgs(args)
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		status := execute(root, started)

		lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
		fail := func(what string, more ...any) {
			t.Errorf("table %d, weft %s: %s\nstderr: %s\n%.400q", k, strings.Join(args, " "),
				fmt.Sprintf(what, more...), stderr.String(), content)
		}
		reported := 0 // lines of errors
		for _, line := range lines {
			if strings.HasPrefix(line, "weft: ") && !strings.HasPrefix(line, "weft: warning: ") &&
				!strings.HasPrefix(line, "weft: note: ") {
				reported++
			}
		}
		if status != cli.ExitDone && status != cli.ExitRefused || reported != min(status, 1) ||
			strings.Contains(stderr.String(), "internal error") ||
			strings.Contains(stderr.String(), "goroutine ") {
			fail("status %d, and %d lines of errors", status, reported)
		}
		there, err := fs.Glob(os.DirFS("."), "*")
		require.NoError(t, err)
		there = slices.DeleteFunc(there, func(path string) bool {
			return path == name || slices.Contains(kept, path)
		})
		for _, path := range there {
			whole := false
			switch {
			case filepath.Ext(path) == ".weft": // the list as a store, which the next training reads
				g, err := graph.Open(path)
				if whole = err == nil; whole {
					require.NoError(t, g.Close())
				}
			case status == cli.ExitDone:
				whole = path == map[bool]string{true: "run", false: "scores.csv"}[learn]
			}
			if !whole {
				fail("%s is left", path)
			}
			require.NoError(t, os.RemoveAll(path))
		}
		require.NoError(t, os.Remove(name))
		done[status == cli.ExitDone]++
	}
	if min(done[true], done[false]) < 50 {
		t.Errorf("%d tables were read, and %d refused", done[true], done[false])
	}
}
