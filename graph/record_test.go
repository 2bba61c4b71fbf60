package graph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/refusal"
)

// large is a store that is large enough for a record, and the path of its features.
func large(t *testing.T) (dir, features string) {
	t.Helper()
	const vertices, columns = 3000, 100
	g := &Graph{
		Relations: []Relation{{Indptr: make([]int64, vertices+1)}},
		Features:  Features{Columns: columns, Dense: make([]float32, vertices*columns)},
	}
	for v := range vertices {
		g.Relations[0].Sources = append(g.Relations[0].Sources, int32(v))
		g.Relations[0].Indptr[v+1] = int64(v + 1)
	}
	dir = stored(t, g)
	return dir, filepath.Join(dir, featuresFile)
}

// overwrite writes bytes into a file, from the end of it.
func overwrite(t *testing.T, path string, data ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, info.Size()-int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// notANumber is a little-endian float32 that no features may have.
var notANumber = []byte{0, 0, 0xc0, 0x7f}

func refusedBy(t *testing.T, err error, path string) {
	t.Helper()
	if err == nil || !refusal.Is(err) || !strings.HasPrefix(err.Error(), path+": ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want a refusal that names %s", err, path)
	}
}

// TestRecordOfChecks: what was checked when it was written is not checked again. What has changed since is.
func TestRecordOfChecks(t *testing.T) {
	dir, features := large(t)
	info, err := os.Stat(features)
	if err != nil {
		t.Fatal(err)
	}
	open := func() error {
		g, err := Open(dir)
		if err == nil {
			err = g.Close()
		}
		return err
	}
	// Somebody writes to a file: it has another time.
	overwrite(t, features, notANumber...)
	refusedBy(t, open(), features)
	// The disk changes it, beneath the file system: only the checksums tell.
	if err := os.Chtimes(features, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("checked again: %v", err)
	}
	refusedBy(t, CheckSums(dir, "it", nil), features)
	// Without the record, all is checked.
	record := filepath.Join(dir, checkedFile)
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]string{
		"no record":                "",
		"damaged":                  string(text[:len(text)/2]),
		"of another version":       strings.Replace(string(text), `"checks": 1`, `"checks": 0`, 1),
		"without the description":  strings.Replace(string(text), descriptionFile, "other.json", 1),
		"without the damaged file": strings.Replace(string(text), featuresFile, "other.npy", 1),
	} {
		if err := os.WriteFile(record, []byte(change), 0o666); err != nil {
			t.Fatal(err)
		}
		if change == "" {
			if err := os.Remove(record); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(name, func(t *testing.T) { refusedBy(t, open(), features) })
	}
}

// TestSums: the record has the checksums of the files, which another program gives, too.
func TestSums(t *testing.T) {
	dir, _ := large(t)
	files, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := Sums(dir)
	for _, name := range files {
		if sum, err := Sum(filepath.Join(dir, name)); err != nil || sums[name] != sum {
			t.Errorf("%s: recorded %q, is %q, %v", name, sums[name], sum, err)
		}
	}
	if err := CheckSums(dir, "it", nil); err != nil || len(sums) != len(files) {
		t.Errorf("%d of %d files, %v", len(sums), len(files), err)
	}
}
