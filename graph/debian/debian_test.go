package debian

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// paragraph writes a package as the archive does.
func paragraph(name, version, section, synopsis string, more ...string) string {
	return fmt.Sprintf("Package: %s\nVersion: %s\n%sSection: %s\nDescription: %s\n\n",
		name, version, strings.Join(append(more, ""), "\n"), section, synopsis)
}

var (
	mainList = paragraph("weft", "1.0-1", "science", "train graph neural networks",
		"Depends: libc6 (>= 2.36), make | ninja, weft", "Suggests: libc6, cora") +
		paragraph("libc6", "2.36-9", "libs", "the library the library", "Recommends: virtual-libc") +
		paragraph("make", "4.3", "devel", "") +
		paragraph("cora", "1", "contrib/science", "graph of citations", "Pre-Depends: make:any",
			"Provides: citations")
	updatesList  = paragraph("libc6", "2.36-10", "libs", "the newer library", "Depends: gcc-12-base [amd64]")
	securityList = paragraph("gcc-12-base", "12", "", "base of the compiler") +
		paragraph("weft", "1.0~rc1-1", "oldlibs", "an older one", "Depends: cora")
	othersList = paragraph("ninja", "1", "devel", "of another origin")
)

const (
	debianBase   = "deb.debian.org_debian_dists_bookworm"
	securityBase = "deb.debian.org_debian-security_dists_bookworm-security"
	othersBase   = "packages.example.org_apt_dists_bookworm"
)

// inRelease writes a repository's signed description, which states the decoded sizes of its lists.
func inRelease(origin, codename string, lists map[string]string) string {
	var sizes strings.Builder
	for path, text := range lists {
		fmt.Fprintf(&sizes, " %064x %8d %s\n %064x 1 %s.xz\n", 0, len(text), path, 0, path)
	}
	return "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: " + origin +
		"\nCodename: " + codename +
		"\nDate: Sat, 11 Jul 2026 10:16:37 UTC\nMD5Sum:\n 0 1 main/binary-amd64/Packages\nSHA256:\n" +
		sizes.String() +
		"-----BEGIN PGP SIGNATURE-----\n\niQIz\n-----END PGP SIGNATURE-----\n"
}

// pack compresses a list for a file name with that suffix; lz4 as apt does, in linked blocks.
func pack(t *testing.T, compression, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch compression {
	case "":
		return text
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".xz":
		w, err = xz.NewWriter(&b)
	case ".lz4":
		return lz4Frame(t, text)
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	require.NoError(t, err)
	return b.String()
}

func lz4Frame(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	require.NoError(t, w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)))
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// listsFolder writes a folder like apt's, the lists in the given compression.
func listsFolder(t *testing.T, compression string) string {
	t.Helper()
	const amd64 = "main/binary-amd64/Packages"
	dir := graphtest.Files(t, map[string]string{
		debianBase + "_InRelease": inRelease("Debian", "bookworm",
			map[string]string{amd64: mainList}),
		debianBase + "-updates_InRelease": inRelease("Debian",
			"bookworm-updates", map[string]string{amd64: updatesList}),
		securityBase +
			"_Release": "Origin: Debian\nCodename: bookworm-security\nDate: Tue, 17 Nov 2026 22:33:39 UTC\n",
		othersBase +
			"_InRelease": inRelease("Debian Backports", "bookworm", nil),
		debianBase + "_main_binary-amd64_Packages" + compression:         pack(t, compression, mainList),
		debianBase + "-updates_main_binary-amd64_Packages" + compression: pack(t, compression, updatesList),
		securityBase + "_main_binary-amd64_Packages" + compression:       pack(t, compression, securityList),
		othersBase + "_main_binary-amd64_Packages" + compression:         pack(t, compression, othersList),
		"unsigned.example.org_Packages" + compression:                    pack(t, compression, othersList),
		debianBase + "_main_i18n_Translation-en" + compression:           "not read",
		"lock": "",
	})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "partial"), 0o700))
	return dir
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

func TestRead(t *testing.T) {
	for _, compression := range []string{"", ".gz", ".xz", ".lz4"} {
		dir := listsFolder(t, compression)
		g, err := Read(dir, Options{Seed: 1})
		require.NoError(t, err, compression)
		var edges []string
		for e, k := g.Relations[0].Edges(), 0; k < e.Len(); k++ {
			edges = append(edges, g.Types[0].Names[e.Target[k]]+" on "+g.Types[0].Names[e.Source[k]])
		}
		assert.Equal(t, []string{"cora", "gcc-12-base", "libc6", "make", "weft"}, g.Types[0].Names,
			"%s: names",
			compression)
		want := []string{
			"cora on make", "libc6 on gcc-12-base", "weft on cora", "weft on libc6", "weft on make",
		}
		assert.Equal(t, want, edges, "%s: edges", compression)
		labels := graph.Labels{
			Classes: 3, Class: []int64{2, -1, 1, 0, 2}, Names: []string{"devel", "libs", "science"},
		}
		assert.Equal(t, labels, g.Types[0].Labels, "%s: labels", compression)
		from := "debian " + dir + ": 3 Packages lists (bookworm-security of Tue, 17 Nov 2026 22:33:39 UTC; " +
			"bookworm-updates of Sat, 11 Jul 2026 10:16:37 UTC; bookworm of Sat, 11 Jul 2026 10:16:37 " +
			"UTC), 2 of other origins left out"
		assert.Equal(t, from, g.Provenance, "%s: provenance", compression)
		if len(g.Warnings) != 1 ||
			!strings.Contains(g.Warnings[0],
				`no InRelease or Release file says where they are from: "unsigned.example.org_Packages`) {
			t.Errorf("%s: warnings %q", compression, g.Warnings)
		}
		checkSplit(t, g)
	}
}

// checkSplit checks that one split divides the labelled vertices 60/20/20.
func checkSplit(t *testing.T, g *graph.Graph) {
	t.Helper()
	require.Len(t, g.Types[0].Splits, 1, "splits")
	s := g.Types[0].Splits[0]
	all := slices.Sorted(slices.Values(slices.Concat(s.Train, s.Val, s.Test)))
	var labelled []int64
	for v, c := range g.Types[0].Labels.Class {
		if c >= 0 {
			labelled = append(labelled, int64(v))
		}
	}
	assert.Equal(t, labelled, all, "split and labelled vertices")
	for i, part := range [][]int64{s.Train, s.Val, s.Test} {
		want := []float64{.6, .2, .2}[i] * float64(len(labelled))
		assert.Near(t, want, float64(len(part)), 1, "part %d of the split of %d vertices", i, len(labelled))
	}
}

// A split belongs to its seed.
func TestReadIsDeterministic(t *testing.T) {
	dir := listsFolder(t, "")
	first, err := Read(dir, Options{Seed: 7})
	require.NoError(t, err)
	second, err := Read(dir, Options{Seed: 7})
	require.NoError(t, err)
	assert.EqualBy(t, first, second, cmpopts.IgnoreUnexported(graph.Graph{}))
}

func TestReadRefuses(t *testing.T) {
	const main = debianBase + "_main_binary-amd64_Packages"
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   string
	}{
		{"no folder", func(t *testing.T, dir string) { removeAll(t, dir, "") }, "after apt-get update"},
		{"no lists", func(t *testing.T, dir string) {
			removeAll(t, dir, "*_Packages")
		}, "(0 of others): run apt-get update"},
		{"other origins only", func(t *testing.T, dir string) {
			removeAll(t, dir, "*.debian.org*")
		}, "(2 of others): run apt-get update"},
		{"no package", func(t *testing.T, dir string) {
			removeAll(t, dir, "*Release")
			removeAll(t, dir, "*_Packages")
			writeFiles(t, dir, map[string]string{debianBase + "_Release": "Origin: Debian\n", main: "\n"})
		}, "have no package: run apt-get update"},
		{"cut short", func(t *testing.T, dir string) {
			writeFiles(t, dir, map[string]string{main: mainList[:len(mainList)/2]})
		}, fmt.Sprintf("_Packages: cut short at %d of %d bytes: run apt-get update",
			len(mainList)/2, len(mainList))},
		{"longer than stated", func(t *testing.T, dir string) {
			writeFiles(t, dir, map[string]string{main: mainList + mainList})
		}, fmt.Sprintf("_Packages: decodes to more than %d bytes: run apt-get update", len(mainList))},
		{"not a list", func(t *testing.T, dir string) {
			writeFiles(t, dir, map[string]string{securityBase + "_main_binary-amd64_Packages": "<html>\n"})
		}, "_Packages: line 1 is neither a field nor the continuation of one: run apt-get update"},
		{"not gzip", func(t *testing.T, dir string) {
			writeFiles(t, dir, map[string]string{main + ".gz": mainList})
		}, "_Packages.gz: gzip: invalid header: run apt-get update"},
		{"other compression", func(t *testing.T, dir string) {
			writeFiles(t, dir, map[string]string{main + ".zst": mainList})
		}, "_Packages.zst: .zst is not read, only plain lists, .lz4, .gz and .xz: run apt-get update"},
		{"release of one long line", func(t *testing.T, dir string) {
			writeFiles(t, dir, map[string]string{debianBase + "_InRelease": strings.Repeat("a", 1<<17)})
		}, "_InRelease: bufio.Scanner: token too long: run apt-get update"},
		{"nothing to split", func(t *testing.T, dir string) {
			removeAll(t, dir, "*bookworm_*")
			removeAll(t, dir, "*updates_*")
		}, "labelled vertices is none"},
	} {
		dir := listsFolder(t, "")
		c.change(t, dir)
		_, err := Read(dir, Options{})
		switch {
		case err == nil:
			t.Errorf("%s: no error", c.name)
		case !refusal.Is(err) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), dir) ||
			strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %q, want a refusal of one line with %q", c.name, err, c.want)
		}
	}
}

func removeAll(t *testing.T, dir, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	for _, path := range paths {
		require.NoError(t, os.RemoveAll(path))
	}
}

// The counts of a real index: those of Debian 12 are 63,436 packages and 299,186 edges in the main list
// alone.
func TestReadThisMachine(t *testing.T) {
	if found, err := debianLists(Lists); err != nil || !slices.ContainsFunc(found.lists, func(l list) bool {
		return strings.Contains(l.path, "_main_binary-")
	}) {
		t.Skip("no Debian package lists on this machine: run apt-get update")
	}
	g, err := Read(Lists, Options{})
	require.NoError(t, err)
	if v, e := g.Vertices(), g.Edges(); v < 50_000 || v > 150_000 || e < 4*int64(v) || e > 8*int64(v) {
		t.Errorf("%d packages and %d edges", v, e)
	}
	if c := g.Types[0].Labels.Classes; c < 50 || c > 70 {
		t.Errorf("%d sections: %v", c, g.Types[0].Labels.Names)
	}
	libc, found := slices.BinarySearch(g.Types[0].Names, "libc6")
	if !found {
		t.Fatal("no libc6")
	}
	dependents := 0
	for _, source := range g.Relations[0].Sources {
		if int(source) == libc {
			dependents++
		}
	}
	if dependents < g.Vertices()/5 {
		t.Errorf("%d packages depend on libc6", dependents)
	}
	checkSplit(t, g)
}
