package table

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// A folder of part files is one table, as Spark, Hive, BigQuery, DuckDB and pyarrow write it. Its rows are
// those of the files in the order of their paths. Names that begin with _ or . are of no part, as _SUCCESS. A
// folder NAME=VALUE below it gives the rows in it a further column, as Hive has it.

// part is a file of a table.
type part struct {
	path  string
	bytes int64
	given []given // by the names of folders
}

// given is a column that the name of a folder gives.
type given struct {
	name  string
	value []byte // nil: it is missing
}

// hiveDefault is the value of a folder where it is missing.
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

// AreParts reports whether the files of a folder look like the parts of one table: their names differ in
// numbers alone, or folders NAME=VALUE hold them, or a mark of Spark lies beside them.
func AreParts(folder string) bool {
	parts, err := partsOf(folder)
	if err != nil || len(parts) == 0 {
		return false
	}
	_, unmarked := os.Stat(filepath.Join(folder, "_SUCCESS"))
	kind := ""
	for k, p := range parts {
		form := endingOf(p.path)
		if form == "" || k > 0 && form != kind {
			return false
		}
		kind = form
		if unmarked != nil && len(p.given) == 0 && masked(p.path) != masked(parts[0].path) {
			return false
		}
	}
	first := parts[0]
	return len(parts) > 1 || unmarked == nil || len(first.given) > 0 || masked(first.path) != first.path
}

// endingOf is the ending of the file of a table, without that of a compression; empty: it has none.
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

// masked is a path without the hexadecimal digits of numbers and UUIDs in the file's name.
func masked(path string) string {
	folder, name := filepath.Split(path)
	fields := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_.", r) })
	for _, f := range fields {
		if strings.ContainsAny(f, "0123456789") && strings.Trim(f, "0123456789abcdef") == "" {
			name = strings.Replace(name, f, "", 1)
		}
	}
	if of, _, numbered := strings.Cut(name, "part-"); numbered && of == "" { // behind it each job has a UUID
		name = "part-" + endingOf(path)
	}
	return folder + strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789-_", r) {
			return -1
		}
		return r
	}, name)
}

// partsOf lists the parts in a folder.
func partsOf(folder string) (parts []part, err error) {
	var add func(folder string, columns []given) error
	add = func(folder string, columns []given) error {
		entries, err := os.ReadDir(folder) // in the order of their names
		if err != nil {
			return refusal.Errorf("%s: %w", folder, errors.Unwrap(err))
		}
		for _, e := range entries {
			name, path := e.Name(), filepath.Join(folder, e.Name())
			if name[0] == '_' || name[0] == '.' {
				continue
			}
			info, err := os.Stat(path) // of what a link leads to
			switch {
			case err != nil:
				return refusal.Errorf("%s: %w", path, errors.Unwrap(err))
			case info.IsDir():
				column, value, is := strings.Cut(name, "=")
				if !is || column == "" {
					return refusal.Errorf("%s: is a folder among the parts of a table, and no NAME=VALUE as Hive has "+
						"it: name one of them, or move it", path)
				}
				if plain, err := url.PathUnescape(value); err == nil {
					value = plain
				}
				of := given{name: column}
				if value != hiveDefault {
					of.value = []byte(value)
				}
				if err := add(path, append(slices.Clip(columns), of)); err != nil {
					return err
				}
			default:
				parts = append(parts, part{path, info.Size(), columns})
			}
		}
		return nil
	}
	return parts, add(folder, nil)
}

// Each reads the table, and calls do with its rows: those of the file at its path or, in the order of their
// paths, of the parts in that folder. Choose is called with the columns of the first part. Each other one has
// the same, in any order. An error of choose is about the table, and one of do is its own.
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
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.bytes == 0 }) // it has no row
	if len(parts) == 0 {
		return refusal.Errorf("%s: is a folder without a file of a table", t.Path)
	}
	of, all := *t, int64(0)
	for _, p := range parts {
		all += p.bytes
	}
	var (
		first   []Column // of the first part that has any
		named   string   // that part
		order   []int    // that of its columns that are read
		done    int64    // bytes
		parquet bool     // it is a file of Parquet
	)
	for k, p := range parts {
		file, _, err := regular.Open(p.path)
		if err != nil {
			return err
		}
		of.Path, of.given, of.progress = p.path, p.given, func(read int64) {
			t.Progress.Of("reading "+t.Path, done+read, all)
		}
		kind := foreign.Of(file) == foreign.Parquet
		if k > 0 && kind != parquet {
			err = refusal.Errorf("%s: %s, and %s is not: a table has parts of one kind", p.path,
				map[bool]string{true: "is Parquet", false: "is no Parquet"}[kind], parts[0].path)
		}
		parquet = kind
		if err == nil {
			err = of.EachOf(file, func(columns []Column) ([]int, error) {
				if first == nil {
					first, named = slices.Clone(columns), p.path
					order, err = choose(columns)
					if err == nil && order == nil && len(p.given) > 0 {
						err = errors.New("the first line names no columns, and the folders do: put a line with a name for " +
							"each before it")
					}
					return order, err
				}
				return alike(first, columns, order, named)
			}, do)
		}
		_ = file.Close()
		if err != nil {
			return err
		}
		done += p.bytes
	}
	return nil
}

// alike is the order of columns of another part as that of the first part's, which has these columns.
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
		if !slices.ContainsFunc(first, func(of Column) bool { return of.Name == c.Name }) {
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

// withGiven are the columns of a part, and those that its folders give.
func (t *Table) withGiven(columns []Column, kind Kind) ([]Column, error) {
	for _, of := range t.given {
		if slices.ContainsFunc(columns, func(c Column) bool { return c.Name == of.name }) {
			return nil, fmt.Errorf("column %.40q is in the file, and its folder is called %[1]s=%s, too", of.name,
				of.value)
		}
		columns = append(columns, Column{of.name, kind})
	}
	return columns, nil
}

// always is the value as Parquet has it.
func (g given) always() parquet.Value {
	if g.value == nil {
		return parquet.NullValue()
	}
	return parquet.ByteArrayValue(g.value)
}
