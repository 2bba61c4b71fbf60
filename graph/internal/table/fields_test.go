package table

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/number"
	"weft/internal/require"
)

// TestQuotes: fields are those of pandas.read_csv with skipinitialspace, without the blanks around them. What
// follows a quoted field belongs to it, and a quote in the middle of a field is text. | stands for the ends
// of fields.
func TestQuotes(t *testing.T) {
	for line, want := range map[string]string{
		`"a",b`:                       `a|b`,
		`""v5,b`:                      `v5|b`,
		`"a"b,c`:                      `ab|c`,
		`"a"b"c,d",e`:                 `ab"c|d"|e`,
		`"a, b" c,d`:                  `a, b c|d`,
		`"a"b"c",d`:                   `ab"c"|d`,
		`"a""b"c,d`:                   `a"bc|d`,
		`x"y,z",w`:                    `x"y|z"|w`,
		`a""b,c`:                      `a""b|c`,
		`"""a""",b`:                   `"a"|b`,
		`"""",b`:                      `"|b`,
		` "a,b" , c`:                  `a,b|c`,
		`"" ,b`:                       `|b`,
		`"" x,b`:                      `x|b`,
		`"a" "b,c"`:                   `a "b|c"`,
		`" a ","b "`:                  `a|b`,
		`"a" b c,d`:                   `a b c|d`,
		`,""`:                         `|`,
		`"a"b,"c,d"`:                  `ab|c,d`,
		`" a" b,c`:                    `a b|c`,
		"\"a\nb\"c,d":                 "a\nbc|d",
		"\"a\"b,\"c\nd\"e":            "ab|c\nde",
		"\"a\nb\" \"c,d":              "a\nb \"c|d",
		"\"a\nb\"\"c\n\",d":           "a\nb\"c|d",
		"\"\n\"x,y":                   "x|y",
		"\"a\n\"\" ,\n\"\",d\"\"\",e": "a\n\" ,\n\",d\"|e",
		"5\" disk,\"a\rb\"":           "5\" disk|a\rb",
		"a\"b,\"\n\"":                 "a\"b|",
		"\"p\n\"\"\"q,r":              "p\n\"q|r",
	} {
		for name, text := range map[string]string{
			"rows": "k,l,m\n" + line + "\n", "a header": line + "\n1,2\n",
		} {
			path := filepath.Join(t.TempDir(), "t.csv")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
			table, rows := Table{Path: path, Separators: ",;\t", Line: "a table", Header: true}, 0
			var fields, header []string
			require.NoError(t, table.Each(func(columns []Column) ([]int, error) {
				for _, c := range columns {
					header = append(header, c.Name)
				}
				return []int{0}, nil
			}, func(r *Row) error {
				rows++
				for _, field := range r.fields {
					fields = append(fields, string(field))
				}
				return nil
			}), line)
			got := fields
			if name == "a header" {
				got = header
			}
			assert.Equal(t, want, strings.Join(got, "|"), "%s: %q", name, line)
			assert.Equal(t, 1, rows, "%s: %q", name, line)
		}
	}
}

// TestQuotesBetweenSpaces: what follows a quoted field belongs to it, up to a space.
func TestQuotesBetweenSpaces(t *testing.T) {
	for line, want := range map[string]string{
		`"a"b c`: `ab|c`, `""v5 "a b"`: `v5|a b`, "\"a b\"c\t d": "a bc|d", `a"b c"`: `a"b|c"`,
	} {
		fields, err := Separator(' ').Split(nil, []byte(line))
		require.NoError(t, err)
		var texts []string
		for _, field := range fields {
			texts = append(texts, string(field))
		}
		assert.Equal(t, want, strings.Join(texts, "|"), "%q", line)
	}
}

// A number is strconv's.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{
		"0", "-0", "-1.5", "1e22", "12345678901234567890", "0.1", "1e-5", "-.5e+03",
		"nan", "", "1e", "-", "+1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, wrong := strconv.ParseFloat(s, 64)
		x, ok := Number([]byte(s))
		if ok != (wrong == nil) || ok && x != want && x == x {
			t.Fatalf("%q: %v, %v; want %v, %v", s, x, ok, want, wrong)
		}
	})
}

// TestSingle: a field is the float32 that strconv has, to the bit, also where float64 lies between two.
func TestSingle(t *testing.T) {
	fields := []string{
		"0", "-0", "1", ".5", "16777217", "16777219", "1.00000005960464477539", "1.000000059604644775390625",
		"1.0000000596046448", "3.4028235e38", "3.4028236e+38", "1e39", "1.17549435e-38", "1e-45", "7e-46",
		"nan", "inf", "-Inf", "", "x", "1_000", "0x1p4", "8388608.5", "33554434.0000001", "123.456",
		"-99.995",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		fields = append(fields, strconv.FormatFloat(r.NormFloat64()*1000, 'f', r.IntN(12), 64),
			strconv.FormatFloat(float64(math.Float32frombits(r.Uint32())), 'g', 1+r.IntN(17), 64))
	}
	for _, field := range fields {
		want, refused := number.Parse(field, 32)
		got, err := single([]byte(field))
		if (err == nil) != (refused == nil) || math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%s: %v, %v, want %v, %v", field, got, err, want, refused)
		}
	}
}
