package debian

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"weft/internal/assert"
	"weft/internal/require"
)

const twoPackages = `Package: weft
Version: 1:2.0-1
Depends: libc6 (>= 2.34),
 libdnnl2.6:any | libdnnl3 [amd64 arm64],
	make
Pre-Depends: dpkg
SUGGESTS: cora
Breaks: old
 older
Description: trains graph neural networks
 A folded description, as dpkg's status file has it.
Section: science
Tag: role::program,
 use::learning

` + "\t \n" + `Package: cora
Version: 1
Description:
`

func TestParsePackages(t *testing.T) {
	want := []entry{
		{
			name: "weft", version: "1:2.0-1", section: "science", synopsis: "trains graph neural networks",
			relations: ",libc6 (>= 2.34), libdnnl2.6:any | libdnnl3 [amd64 arm64],\tmake,dpkg,cora",
		},
		{name: "cora", version: "1"},
	}
	for _, text := range []string{
		twoPackages, strings.ReplaceAll(twoPackages, "\n", "\r\n"),
		strings.TrimSpace(twoPackages),
	} {
		var got []entry
		require.NoError(t, parsePackages(strings.NewReader(text), func(p entry) { got = append(got, p) }))
		for i := range got {
			got[i].relations = strings.ReplaceAll(got[i].relations, "\r", "")
		}
		assert.EqualBy(t, want, got, cmp.AllowUnexported(entry{}))
	}
}

func TestParsePackagesRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"Package: a\nVersion: 1\n\nPackage: b\n", "the paragraph from line 4 lacks a Package or a " +
			"Version field"},
		{"Version: 1\n", "the paragraph from line 1 lacks a Package or a Version field"},
		{" folded: of nothing\n", "line 1 is neither a field nor the continuation of one"},
		{"Package: a\nVersion\n", "line 2 is neither a field nor the continuation of one"},
		{"Package: a\n: 1\n", "line 2 is neither a field nor the continuation of one"},
		{"<html>\n<a href=\"x:y\">\n", "line 1 is neither a field nor the continuation of one"},
		{"Package: a\nVersion: \xff\n", "line 2 is not UTF-8"},
		{"Package: ../a\n", `line 1: "../a" is not a package name`},
		{"Package: Capital\n", `line 1: "Capital" is not a package name`},
		{"Package: +a\n", `line 1: "+a" is not a package name`},
		{"Package:\n", `line 1: "" is not a package name`},
		{"Package: a\nHomepage: " + strings.Repeat("a", maxLine), "line 2 is longer than 1048576 bytes"},
	} {
		err := parsePackages(strings.NewReader(c.text), func(entry) {})
		assert.EqualError(t, err, c.want, "parsePackages(%.40q)", c.text)
	}
}

func TestRelationTargets(t *testing.T) {
	for _, c := range []struct {
		field string
		want  []string
	}{
		{"", nil},
		{" , ,| ", nil},
		{"libc6", []string{"libc6"}},
		{"libc6 (>= 2.34), libc6 (<< 2.37)", []string{"libc6", "libc6"}},
		{"libc6(>=2.34),make", []string{"libc6", "make"}},
		{"default-mta | mail-transport-agent", []string{"default-mta", "mail-transport-agent"}},
		{"python3:any (>= 3.11~)", []string{"python3"}},
		{"gcc [amd64 !i386] <!nocheck> <cross>, g++[any]", []string{"gcc", "g++"}},
		{"a<!stage1>\t|\n b", []string{"a", "b"}},
		{"libstdc++6, 0ad-data", []string{"libstdc++6", "0ad-data"}},
	} {
		assert.Equal(t, c.want, slices.Collect(relationTargets(c.field)), "relationTargets(%q)", c.field)
	}
}

func FuzzParsePackages(f *testing.F) {
	f.Add([]byte(twoPackages))
	f.Add([]byte("Package: a\nVersion: 1\nSection: non-free/net\r\nDepends: ,|\n |b\n"))
	f.Add([]byte("\n\n \nPackage:"))
	f.Add([]byte("Package: a\n\x00:\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		size := 0
		err := parsePackages(strings.NewReader(string(text)), func(p entry) {
			if !validName(p.name) || p.version == "" ||
				strings.Contains(p.version+p.section+p.synopsis, "\n") {
				t.Errorf("kept %q", p)
			}
			if kept := p.version + p.section + p.synopsis; !utf8.ValidString(kept) {
				t.Errorf("kept %q", p)
			}
			size += len(p.name + p.version + p.section + p.synopsis + p.relations)
		})
		if size > len(text) {
			t.Errorf("kept %d bytes of %d", size, len(text))
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %q", err)
		}
	})
}

func FuzzRelationTargets(f *testing.F) {
	f.Add("libc6 (>= 2.34), python3:any | python3.11 [amd64] <!nocheck>")
	f.Add(",|( ,)<[:")
	f.Fuzz(func(t *testing.T, field string) {
		for name := range relationTargets(field) {
			if name == "" || strings.ContainsAny(name, ",| \t:([<") || !strings.Contains(field, name) {
				t.Errorf("relationTargets(%q) yields %q", field, name)
			}
		}
	})
}
