package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// file is a file that holds that text.
func file(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// sparse is a file that begins with that text and claims a terabyte behind it.
func sparse(t *testing.T, text string) string {
	path := file(t, text)
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip(err)
	}
	return path
}

func TestRead(t *testing.T) {
	if text, err := Read(file(t, "\ufefftext"), 7); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	for path, want := range map[string]string{
		file(t, "12345678"): ": longer than the 7 bytes",
		sparse(t, "1"):      ": longer than the 7 bytes",
		t.TempDir():         ": is a directory, not a file",
	} {
		_, err := Read(path, 7)
		assert.RefusedFor(t, err, path+want, "", "want %q", want)
	}
}

func TestJSON(t *testing.T) {
	type object struct {
		Format int `json:"format"`
		A      int `json:"a"`
	}
	deep := strings.Repeat("[    ", 20000)
	for _, c := range []struct {
		text         string
		want, strict string // the refusals, empty where it is read
	}{
		{`{"format": 3, "a": 1}`, "", ""},
		{`{"format": 3, "a": 1, "b": {}}`, "", `damaged: json: unknown field "b"`},
		{`{"format": 4, "b": 1}`, "format version 4, where", "format version 4, where"},
		{
			`{"format": 3, "a": "x"}`, "damaged: byte 22 ends a value of another type, string",
			"damaged: byte 22 ends",
		},
		{
			`{"format": 3, "a": 1, "b": [` + strings.Repeat(`{"train":0,"val":0,"test":0},`, 5000) + `{}]}`,
			"",
			`damaged: json: unknown field "b"`,
		},
		{`{"format": 3} {}`, "damaged: ", "damaged: "},
		{`{"format": 3, "b": ` + deep, "exceeded max depth", "exceeded max depth"},
		{deep, "exceeded max depth", "exceeded max depth"},
		{``, "damaged: ", "damaged: "},
		{
			`{"format": 3, "b": [` + strings.Repeat("{},", 5000) + `{}]}`,
			"damaged: 5002 objects and 1 lists in 15024 bytes", "damaged: 5002 objects",
		},
		{
			`{"format": 3, "b": [` + strings.Repeat("[],", 5000) + `[]]}`,
			"damaged: 1 objects and 5002 lists in 15024 bytes", "damaged: 1 objects",
		},
	} {
		for _, way := range []struct {
			read func([]byte, int, any) error
			want string
		}{{JSON, c.want}, {StrictJSON, c.strict}} {
			var o object
			err := way.read([]byte(c.text), 3, &o)
			if way.want == "" && (err != nil || o.A != 1) {
				t.Errorf("%.40s: %+v, %v", c.text, o, err)
			}
			if way.want != "" && (!refusal.Is(err) || !strings.Contains(err.Error(), way.want)) {
				t.Errorf("%.40s: %v, want %q", c.text, err, way.want)
			}
		}
	}
}

func TestStrings(t *testing.T) {
	list, err := Strings(file(t, "[\"a\", \"b\"]\n"), 2)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, list)
	for path, want := range map[string]string{
		file(t, `["a", "b", "c"]`):          "more than 2",
		file(t, `["a", 7]`):                 "cannot unmarshal number",
		file(t, `["a"`):                     "EOF",
		file(t, `["a"] ["b"]`):              "more follows behind the list",
		file(t, `{"a": "b"}`):               "it begins with {",
		file(t, `null`):                     "it begins with",
		file(t, strings.Repeat("[", 20000)): "exceeded max depth",
		sparse(t, `["a"`):                   "expected comma",
		sparse(t, `["a`):                    "invalid character",
	} {
		list, err := Strings(path, 2)
		assert.RefusedFor(t, err, path+": not a list of names: ", want, "%q", list)
	}
}
