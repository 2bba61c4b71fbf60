package table

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"weft/graph"
	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// A folder of part files is one table, as Spark, Hive, BigQuery, DuckDB and pyarrow write it. Its parts are
// all files in it, and in folders NAME=VALUE below it. Such a folder gives its rows a further column, as in
// Hive. As there, files whose names begin with _ or . (_SUCCESS) are no parts, nor are stores that weft has
// made from a part (IsStore). The names of all parts have one ending. Reading refuses what is no file, or has
// no names of columns. The rows of the table are the rows of the parts, in the order of their paths.

// part is a file of a table.
type part struct {
	path          string
	bytes         int64
	folderColumns []folderColumn // columns by the names of folders
}

// folderColumn is a column that comes from the name of a folder.
type folderColumn struct {
	name  string
	value []byte // nil: it is missing
}

// hiveDefault is the value in a folder's name that stands for a missing value.
const hiveDefault = "__HIVE_DEFAULT_PARTITION__"

// Size is how many bytes the table has, in one file or in parts.
func Size(path string) (bytes int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return info.Size(), nil
	}
	parts, err := partsOf(path)
	for _, p := range parts {
		bytes += p.bytes
	}
	return bytes, err
}

// AreParts reports whether a folder, which nothing says to be a table, looks like one: Spark's mark _SUCCESS
// lies in it, or folders NAME=VALUE hold its parts, or the names of the parts are numbered.
func AreParts(folder string) bool {
	parts, err := partsOf(folder)
	if err != nil || len(parts) == 0 || endingOf(parts[0].path) == "" {
		return false
	}
	if _, err := os.Stat(filepath.Join(folder, "_SUCCESS")); err == nil {
		return true
	}
	first, numbered := stem(parts[0].path)
	return !slices.ContainsFunc(parts, func(p part) bool {
		name, is := stem(p.path)
		return len(p.folderColumns) == 0 && (name != first || !is || !numbered)
	})
}

// endingOf is the ending of a table's file, without the ending of a compression; empty: it has none.
func endingOf(path string) string {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	for _, ending := range []string{".parquet", ".csv", ".tsv", ".txt"} {
		if strings.HasSuffix(name, ending) {
			return ending
		}
	}
	return ""
}

// stem is the beginning of a numbered file's name, up to the number. A UUID, and any other long hexadecimal
// word with a digit, counts as a number.
func stem(path string) (begin string, numbered bool) {
	const digits, long = "0123456789", len("6f1c2d3e")
	name := filepath.Base(path)
	word, _, _ := strings.Cut(strings.Map(func(r rune) rune {
		if strings.ContainsRune("_.", r) {
			return '-'
		}
		return r
	}, name), "-")
	at := strings.IndexAny(name, digits)
	if len(word) >= long && strings.ContainsAny(word, digits) && strings.Trim(word, digits+"abcdef") == "" {
		at = 0
	}
	return name[:max(0, at)], at >= 0
}

// Whole is the folder of the table to which a path belongs. It is above the topmost folder NAME=VALUE in
// which the path lies or, if it is a folder, which it is. is reports whether there is such a folder.
func Whole(path string, folder bool) (whole string, is bool) {
	for at := filepath.Clean(path); at != filepath.Dir(at); at = filepath.Dir(at) {
		if strings.Index(filepath.Base(at), "=") > 0 && (folder || at != filepath.Clean(path)) {
			whole, is = filepath.Dir(at), true
		} else if at != filepath.Clean(path) {
			break
		}
	}
	return whole, is
}

// IsStore reports whether a folder among the files of a source is a store made from one of them, and no part
// of the source: its name ends in .weft.
func IsStore(folder string) bool { return strings.HasSuffix(folder, ".weft") && graph.IsStore(folder) }

// partsOf lists the parts in a folder, in the order of their paths.
func partsOf(folder string) (parts []part, err error) {
	var add func(folder string, columns []folderColumn) error
	add = func(folder string, columns []folderColumn) error {
		entries, err := os.ReadDir(folder) // in the order of their names
		if err != nil {
			return refusal.Errorf("%s: %w", folder, errors.Unwrap(err))
		}
		for _, e := range entries {
			name, path := e.Name(), filepath.Join(folder, e.Name())
			if name[0] == '_' || name[0] == '.' {
				continue
			}
			info, err := os.Stat(path) // of the file to which a link leads
			switch {
			case err != nil: // reading reports it
				parts = append(parts, part{path, 0, columns})
			case info.IsDir() && IsStore(path):
			case info.IsDir():
				column, value, is := strings.Cut(name, "=")
				if !is || column == "" {
					return refusal.Errorf("%s: is a folder among the parts of a table, and no NAME=VALUE as Hive has "+
						"it: name one of them, or move it", path)
				}
				if plain, err := url.PathUnescape(value); err == nil {
					value = plain
				}
				added := folderColumn{name: column}
				if value != hiveDefault {
					added.value = []byte(value)
				}
				if err := add(path, append(slices.Clip(columns), added)); err != nil {
					return err
				}
			default:
				parts = append(parts, part{path, info.Size(), columns})
			}
		}
		return nil
	}
	if err := add(folder, nil); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if first := parts[0].path; endingOf(p.path) != endingOf(first) {
			return nil, refusal.Errorf("%s: its name ends otherwise than that of %s, and the parts of a table have one "+
				"ending: remove it, or begin its name with _", p.path, first)
		}
	}
	return parts, nil
}

// Copies lists which parts of the table at path have the same bytes as another part, so that their rows count
// twice: a pair for each. A file has none.
func Copies(path string) (pairs [][2]string, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil, nil //nolint:nilerr // whoever reads it says what is wrong
	}
	parts, err := partsOf(path)
	if err != nil {
		return nil, err
	}
	type begin struct {
		size int64
		text string
	}
	alike := map[begin][]part{}
	for _, p := range parts {
		text, err := beginOf(p.path)
		if err != nil {
			return nil, err
		}
		key := begin{p.bytes, text}
		for _, other := range alike[key] {
			if !slices.EqualFunc(p.folderColumns, other.folderColumns, folderColumn.equal) {
				continue
			}
			same, err := sameBytes(p.path, other.path)
			if err != nil {
				return nil, err
			}
			if same && hasRow(p.path) {
				pairs = append(pairs, [2]string{p.path, other.path})
				break
			}
		}
		alike[key] = append(alike[key], p)
	}
	return pairs, nil
}

// hasRow reports whether a file has a row behind its header. It is false for a file that cannot be read:
// whoever reads it says why.
func hasRow(path string) bool {
	found := errors.New("there is a row")
	t := Table{Path: path, Separators: ",;\t"}
	return errors.Is(t.Each(func(columns []Column) (order []int, err error) {
		for k, c := range columns {
			if c.Kind != Nested {
				order = append(order, k)
			}
		}
		return order, nil
	}, func(*Row) error { return found }), found)
}

// beginOf are the first bytes of a file.
func beginOf(path string) (string, error) {
	file, _, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	const most = 4 << 10 // bytes
	text, err := io.ReadAll(io.LimitReader(file, most))
	return string(text), err
}

// sameBytes reports whether two files of one size have the same bytes.
func sameBytes(path, other string) (bool, error) {
	var files [2]*os.File
	for k, path := range []string{path, other} {
		file, _, err := regular.Open(path)
		if err != nil {
			return false, err
		}
		defer file.Close()
		files[k] = file
	}
	const most = 1 << 16 // bytes at once
	var rooms [2][most]byte
	for {
		var n [2]int
		for k, file := range files {
			var err error
			n[k], err = io.ReadFull(file, rooms[k][:])
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
		}
		if n[0] < most || n[1] < most || !bytes.Equal(rooms[0][:], rooms[1][:]) {
			return bytes.Equal(rooms[0][:n[0]], rooms[1][:n[1]]), nil
		}
	}
}

// Each reads the table, and calls do with its rows: the rows of the file at its path or, in the order of
// their paths, of the parts in that folder. choose is called with the columns of the first part. Each other
// part has the same columns, in any order. An error of choose is about the table, and an error of do is its
// own.
func (t *Table) Each(choose Choose, do func(*Row) error) error {
	info, err := os.Stat(t.Path)
	switch {
	case err == nil && info.IsDir():
		return t.eachPart(choose, do)
	case err == nil && info.Mode().Type() == fs.ModeNamedPipe && t.Pipe:
		file, err := os.Open(t.Path)
		if err != nil {
			return err
		}
		defer file.Close()
		return t.EachOf(file, choose, do)
	}
	file, _, err := regular.Open(t.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	return t.EachOf(file, choose, do)
}

// eachPart reads the parts in the folder.
func (t *Table) eachPart(choose Choose, do func(*Row) error) error {
	parts, err := partsOf(t.Path)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return refusal.Errorf("%s: is a folder without a file of a table", t.Path)
	}
	partTable, all := *t, int64(0)
	for _, p := range parts {
		all += p.bytes
	}
	var (
		first   []Column // of the first part that has columns
		named   string   // the path of that part
		order   []int    // the order of its columns that are read
		rows    bool     // one of the earlier parts has rows
		done    int64    // bytes
		parquet bool     // it is a file of Parquet
	)
	for k, p := range parts {
		file, _, err := regular.Open(p.path)
		if err != nil {
			return err
		}
		partTable.Path, partTable.folderColumns = p.path, p.folderColumns
		partTable.progress = func(read int64) {
			t.Progress.Report("reading "+t.Path, done+read, all)
		}
		kind := foreign.Of(file) == foreign.Parquet
		if k > 0 && kind != parquet && p.bytes > 0 {
			if kind {
				err = refusal.Errorf("%s: is Parquet, and %s is not: a table has parts of one kind", p.path, parts[0].path)
			} else {
				err = refusal.Errorf("%s: is no Parquet, and %s is: a table has parts of one kind, and none that is "+
					"cut short", p.path, parts[0].path)
			}
		}
		parquet = kind
		var begun error // about the part whose columns are first, if it seems to be cut short
		empty := true
		if err == nil && p.bytes > 0 {
			err = partTable.EachOf(file, func(columns []Column) ([]int, error) {
				empty = false
				if first == nil {
					first, named = slices.Clone(columns), p.path
					order, err = choose(columns)
					if err == nil && order == nil && len(p.folderColumns) > 0 {
						err = errors.New("the first line names no columns, and the folders do: put a line with a name for " +
							"each before it")
					}
					return order, err
				}
				here, err := alike(first, columns, order, named)
				if err != nil && !rows {
					begun = refusal.Errorf("%s: has no row, and other columns than %s, as a file that is cut short: restore it, "+
						"or remove it", named, p.path)
				}
				return here, err
			}, func(r *Row) error {
				rows = true
				return do(r)
			})
		}
		_ = file.Close()
		if err == nil && empty {
			err = refusal.Errorf("%s: has neither a row nor names of columns, as a file that is cut short: restore it, "+
				"remove it, or begin its name with _", p.path)
		}
		if err != nil {
			return cmp.Or(begun, err)
		}
		done += p.bytes
	}
	return nil
}

// alike is the order of the columns of another part, given the order for the first part's columns first.
func alike(first, columns []Column, order []int, path string) ([]int, error) {
	if order == nil { // no line names columns
		if len(columns) != len(first) {
			return nil, fmt.Errorf("%d columns, where %s has %d", len(columns), path, len(first))
		}
		return nil, nil
	}
	at := make(map[string]int, len(columns))
	for k, c := range columns {
		at[c.Name] = k
	}
	for _, c := range columns {
		if !slices.ContainsFunc(first, func(known Column) bool { return known.Name == c.Name }) {
			return nil, fmt.Errorf("there is a column %.40q, which %s does not have: the parts of a table have the same "+
				"columns", c.Name, path)
		}
	}
	for _, c := range first {
		if _, there := at[c.Name]; !there {
			return nil, fmt.Errorf("there is no column %.40q, which %s has: the parts of a table have the same columns",
				c.Name, path)
		}
	}
	if len(columns) != len(first) {
		return nil, errors.New("two columns have one name: rename one")
	}
	here := make([]int, len(order))
	for k, column := range order {
		here[k] = at[first[column].Name]
		if columns[here[k]].Kind == Nested {
			return nil, fmt.Errorf("column %.40q has a Parquet type that is not read, and another one in %s",
				first[column].Name, path)
		}
	}
	return here, nil
}

// withGiven are the columns of a part, with the columns that its folders give.
func (t *Table) withGiven(columns []Column, kind Kind) ([]Column, error) {
	for _, col := range t.folderColumns {
		if slices.ContainsFunc(columns, func(c Column) bool { return c.Name == col.name }) {
			return nil, fmt.Errorf("column %.40q is in the file, and its folder is called %[1]s=%s, too", col.name,
				col.value)
		}
		columns = append(columns, Column{col.name, kind})
	}
	return columns, nil
}

// equal reports whether two columns have one name and one value.
func (g folderColumn) equal(other folderColumn) bool {
	return g.name == other.name && bytes.Equal(g.value, other.value) &&
		(g.value == nil) == (other.value == nil)
}

// always is the value in the form of Parquet.
func (g folderColumn) always() parquet.Value {
	if g.value == nil {
		return parquet.NullValue()
	}
	return parquet.ByteArrayValue(g.value)
}
