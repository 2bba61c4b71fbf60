package columns

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"weft/internal/assert"
	"weft/internal/require"
)

// customers is a table, a column to each name, and what is made of it.
var customers = map[string]string{
	"age":   "30,,50,40",
	"vip":   "true,No,YES,na",
	"city":  "Rome,Paris,,Rome",
	"since": "1970-01-02,1970-01-03 12:00:00,,1970-01-01T02:00:00+02:00",
	"name":  "a,b,c,d",
	"empty": ",NULL,n/a,",
	"mixed": "1,x,1,x",
}

func profiled(t *testing.T, name string, choices Choices) (Column, string) {
	t.Helper()
	p := NewProfile(name, choices)
	for field := range strings.SplitSeq(customers[name], ",") {
		p.Add([]byte(field), []byte(field))
	}
	return p.Column()
}

// TestProfile: each column has the kind that all its values have, their mean, and a mark for gaps.
func TestProfile(t *testing.T) {
	three := Choices{Most: 3}
	for name, want := range map[string]Column{
		"age": {Kind: Number, Mean: 40, Gaps: true, Missing: 1},
		"vip": {Kind: Boolean, Mean: 2. / 3, Gaps: true, Missing: 1},
		"city": {
			Kind: Category, Categories: []string{"Paris", "Rome"}, Counts: []int64{1, 2}, Gaps: true,
			Missing: 1,
		},
		"since": {Kind: Date, Mean: 3.5 / 3, Gaps: true, Missing: 1}, // days 1, 2.5 and 0
		"mixed": {Kind: Category, Categories: []string{"1", "x"}, Counts: []int64{2, 2}},
	} {
		got, why := profiled(t, name, three)
		want.Name = name
		assert.Equal(t, want, got)
		assert.Equal(t, "", why)
	}
	for name, want := range map[string]string{
		"name":  "it is text of more than 3 values, as “a”; --categories takes more",
		"empty": "it has no value",
	} {
		_, why := profiled(t, name, three)
		assert.Equal(t, want, why)
	}
	p := NewProfile("own", Choices{Most: 50})
	for i := range 11 {
		p.Add([]byte{byte(i) + 97}, []byte{byte(i) + 97})
	}
	_, why := p.Column()
	assert.Equal(t, "it is text that no two rows share, as “a”", why)
	for first, number := range map[string]bool{
		"22.946,46": true, "1,234": true, "$ 938.50": true, "-12 €": true, "84%": true, "1 234": true,
		"7": true, "C7": false, "n.a.": false, "12-34": false, "%": false, "3 kg": false,
	} {
		p := NewProfile("own", three)
		for _, field := range []string{first, "a", "b", "c", "d"} {
			p.Add([]byte(field), []byte(field))
		}
		_, why := p.Column()
		assert.Equal(t, number, strings.HasSuffix(why, "; if they are numbers, write each as 1234.5, and "+
			"nothing where one is missing"), first)
		assert.Equal(t, !number, strings.HasSuffix(why, "; --categories takes more"), first)
	}
	timed, _ := profiled(t, "since", Choices{Cyclic: true})
	assert.Equal(t, []Cycle{Year, Week, Day}, timed.Cycles)
}

// TestAppend: the features of a value are those that the package comment states.
func TestAppend(t *testing.T) {
	l := List{
		{Name: "age", Kind: Number, Mean: 40, Gaps: true},
		{Name: "height", Kind: Number, Mean: 1.5},
		{Name: "vip", Kind: Boolean},
		{Name: "since", Kind: Date, Mean: 7, Cycles: []Cycle{Year, Week, Day}, Gaps: true},
		{Name: "city", Kind: Category, Categories: []string{"Paris", "Rome"}, Gaps: true},
	}
	s, c := float32(math.Sin(2*math.Pi*6/7)), float32(math.Cos(2*math.Pi*6/7))
	for row, want := range map[string][]float32{
		// 2023-01-01 is day 19358 after 1970-01-01, and a Sunday: 6/7 of a week have passed
		"31.5,2,yes,2023-01-01,Rome": {31.5, 0, 2, 1, 19358, 0, 1, s, c, 0, 1, 0, 0, 1, 0},
		// three quarters of a day: 18:00
		"NaN,,false,1970-01-01 18:00:00,": {
			40, 1, 1.5, 0, .75, float32(math.Sin(2 * math.Pi * .75 / 365)),
			float32(math.Cos(2 * math.Pi * .75 / 365)), float32(math.Sin(2 * math.Pi * 3.75 / 7)),
			float32(math.Cos(2 * math.Pi * 3.75 / 7)), -1, float32(math.Cos(2 * math.Pi * .75)), 0, 0, 0, 1,
		},
		"-1,1e3,no,n/a,Berlin": {-1, 0, 1000, 0, 7, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
	} {
		var got []float32
		unknowns := 0
		for i, field := range strings.Split(row, ",") {
			more, unknown, err := l[i].Append(got, []byte(field))
			require.NoError(t, err)
			if got = more; unknown {
				unknowns++
			}
		}
		assert.Equal(t, want, got)
		assert.Equal(t, strings.Count(row, "Berlin"), unknowns)
	}
	assert.Equal(t, []bool{
		true, false, true, false, true, false, false, false, false, false,
		false, false, false,
		false, false,
	}, l.Scaled())
	for i, field := range map[int]string{0: "3 apples", 1: "1e39", 2: "1", 3: "2023-02-30", 4: ""} {
		if _, _, err := l[i].Append(nil, []byte(field)); (err != nil) == (i == 4) {
			t.Errorf("%q as %s: %v", field, l[i].Name, err)
		}
	}
	require.NoError(t, l.Check(15))
}

// TestParseDate: dates of either order are those of pandas.to_datetime.
func TestParseDate(t *testing.T) {
	const none = 1 << 20
	for _, c := range []struct {
		field string
		order Order
		days  float64
	}{
		{"31.12.2023", DayFirst, 19722},
		{"1.2.2024", DayFirst, 19754},
		{"29/02/2024 13:30", DayFirst, 19782.5625},
		{"02/29/2024", MonthFirst, 19782},
		{"5-6-1999", DayFirst, 10747},
		{"05.06.23", DayFirst, 19513},
		{"01/02/68", DayFirst, 35825},
		{"01/02/69", DayFirst, -334}, // as POSIX has it: pandas says 2069
		{"2024-03-01", DayFirst, 19783},
		{"2024/03/01", MonthFirst, 19783},
		{"29/02/2024", MonthFirst, none},
		{"29.02.2023", DayFirst, none},
		{"31.12.2023", "", 19722}, // which no other order reads
		{"12/31/2023", "", 19722},
		{"05.05.2024 12:00", "", 19848.5},
		{"1.2.2024", "", none},
		{"31.12-2023", DayFirst, none},
		{"05-06-23", DayFirst, none}, // may be 2005
		{"123.1.2023", DayFirst, none},
		{"1..2023", DayFirst, none},
		{"31.12.", DayFirst, none},
		{"2024-3-01", DayFirst, none},
		{strings.Repeat("1", 99), DayFirst, none},
	} {
		days := float64(none)
		if at, ok := ParseDate([]byte(c.field), c.order); ok {
			days = at.Sub(time.Unix(0, 0)).Hours() / 24
		}
		assert.Equal(t, c.days, days, "%s", c.field)
	}
}

// TestDoubt: where no date tells which number is the day, that is said, and nowhere else.
func TestDoubt(t *testing.T) {
	for dates, want := range map[string]string{
		"1/2/2023,2/2/2023": "dates as “1/2/2023” do not say which number is the day: the first one is taken for " +
			"it; write them as 2023-01-31 if it is the month",
		"1/2/2023,31/1/2023": "", "1/2/2023,1/31/2023": "", "2023-01-02,2023-02-01": "", "1,2": "",
	} {
		p := NewProfile("", Choices{})
		for field := range strings.SplitSeq(dates, ",") {
			p.Add([]byte(field), []byte(field))
		}
		c, _ := p.Column()
		assert.Equal(t, want, p.Doubt(&c), "%s", dates)
	}
}

// TestDatesOfLaterTables: a date in a form that the column did not have is read where it can only be one day,
// and else refused with both forms.
func TestDatesOfLaterTables(t *testing.T) {
	for _, c := range []struct {
		order       Order
		field, want string
	}{
		{"", "2024-01-31T01:00:00+01:00", "19753"},
		{"", "31.1.2024", "19753"},
		{"", "1/31/2024", "19753"},
		{DayFirst, "2024-01-31", "19753"},
		{MonthFirst, "2024/01/31 00:00", "19753"},
		{"", "2/1/2024", `"2/1/2024" is no date: write it as 2023-01-31, as the column had it when it became a feature`},
		{DayFirst, "1/31/2024", `"1/31/2024" is no date: write it as 2023-01-31 or 31/01/2023`},
		{MonthFirst, "31.1.2024", `"31.1.2024" is no date: write it as 2023-01-31 or 01/31/2023`},
		{DayFirst, "1706659200", `"1706659200" is no date: write it as 2023-01-31 or 31/01/2023`},
	} {
		column := Column{Kind: Date, Order: c.order}
		got, _, err := column.Append(nil, []byte(c.field))
		text := strings.TrimSuffix(fmt.Sprint(err), ", or leave the field empty")
		if err == nil {
			text = fmt.Sprint(got[0])
		}
		assert.Equal(t, c.want, text, "%+v", c)
	}
}

// TestLeapYear: a year has 366 days where it has a 29 February. The numbers are NumPy's.
func TestLeapYear(t *testing.T) {
	c := Column{Kind: Date, Cycles: []Cycle{Year}}
	for date, want := range map[string][]float32{
		"2024-12-31 12:00": {20088.5, -.008583481, .99996316}, // 365.5 of 366 days
		"2024-03-01":       {19783, .85731465, .5147928},      // 60 of 366
		"2023-03-01":       {19417, .8498171, .52707773},      // 59 of 365
	} {
		got, _, err := c.Append(nil, []byte(date))
		require.NoError(t, err)
		assert.Equal(t, want, got, "%s", date)
	}
}

// TestOddFields: a column is of the kind of nearly all its fields, and the others are missing and named.
func TestOddFields(t *testing.T) {
	days, months := "31.1.2023,1.2.2023", "1/31/2023,2/1/2023"
	for _, c := range []struct {
		what, fields string
		repeated     int // how often the fields stand there
		then         string
		want         Column
		note         string
	}{
		{"day first", days, 1, "", Column{Kind: Date, Order: DayFirst, Mean: 19388.5}, ""},
		{"month first", months, 1, "", Column{Kind: Date, Order: MonthFirst, Mean: 19388.5}, ""},
		{
			"one that tells", "1/2/2023,2/1/2023", 10, "1/31/2023",
			Column{Kind: Date, Order: MonthFirst, Mean: (10*(19359+19389) + 19388) / 21.},
			"",
		},
		{
			"open", "1/2/2023,2/2/2023", 1, "",
			Column{Kind: Date, Order: DayFirst, Mean: 19389.5},
			"",
		},
		{"year first", "2023-01-31,2023-02-01", 1, "", Column{Kind: Date, Mean: 19388.5}, ""},
		{
			"one bad date", days, 5, "32.1.2023",
			Column{Kind: Date, Order: DayFirst, Mean: 19388.5, Gaps: true, Missing: 1},
			"“32.1.2023” in row 11 is no date, and counts as missing",
		},
		{
			"one month first among days", days, 5, "12/31/2023",
			Column{Kind: Date, Order: DayFirst, Mean: 19388.5, Gaps: true, Missing: 1},
			"“12/31/2023” in row 11 is no date, and counts as missing",
		},
		{
			"one text among numbers, and a gap", "1,2", 5, ",x",
			Column{Kind: Number, Mean: 1.5, Gaps: true, Missing: 2},
			"“x” in row 12 is no number, and counts as missing",
		},
		{
			"two of a hundred and fewer", "1,2", 99, "x,y",
			Column{Kind: Number, Mean: 1.5, Gaps: true, Missing: 2},
			"“x” in row 199 is no number, and counts as missing, as do 1 more that are none",
		},
		{
			"two of a hundred and more", "1,2", 98, "x,y",
			Column{
				Kind: Category, Categories: []string{"1", "2", "x", "y"}, Counts: []int64{98, 98, 1, 1},
			},
			"",
		},
		{
			"few rows", "1,2", 4, "x",
			Column{Kind: Category, Categories: []string{"1", "2", "x"}, Counts: []int64{4, 4, 1}},
			"",
		},
		{
			"texts first", "w,x", 6, strings.Repeat("1,", 1300) + "1",
			Column{Kind: Category, Categories: []string{"1", "w", "x"}, Counts: []int64{1301, 6, 6}},
			"",
		},
		{
			"numbers among months first", "1,1/31/2023", 12, strings.Repeat("1,", 1150) + "1",
			Column{Kind: Category, Categories: []string{"1", "1/31/2023"}, Counts: []int64{1163, 12}},
			"",
		},
		{
			"one other truth", "yes,no", 50, "maybe",
			Column{
				Kind: Category, Categories: []string{"maybe", "no", "yes"}, Counts: []int64{1, 50, 50},
			},
			"",
		},
	} {
		p := NewProfile("x", Choices{Most: 4})
		fields := strings.Repeat(c.fields+",", c.repeated)
		for field := range strings.SplitSeq(strings.TrimSuffix(fields+c.then, ","), ",") {
			p.Add([]byte(field), []byte(field))
		}
		c.want.Name = "x"
		got, note := p.Column()
		assert.Equal(t, c.want, got, "%s", c.what)
		assert.Equal(t, c.note, note, "%s", c.what)
	}
}

// TestOffset: what float32 would round keeps its standard scores, which are NumPy's in float64, in the table
// and in a row that comes later, whether that is made like the table or arranged like it. What float32 holds
// well stays as it is.
func TestOffset(t *testing.T) {
	for _, c := range []struct {
		fields []string // of the table, and of one row more
		offset float64
		scores []float64
	}{
		{
			[]string{"10000.0012", "9999.9991", "10000.0003", "9999.9986", "10000.0008", "10000.0005"},
			10000,
			[]float64{1.2072655, -.90544909, .30181636, -1.4084764, .80484364, .50302727},
		},
		{
			[]string{"1700000000", "1700000010", "1700000047", "1699999981", "1700000003.5", "1700000021"},
			1700000008.3,
			[]float64{-.38384812, .078619497, 1.7897497, -1.2625366, -.22198445, .58733387},
		},
		{
			[]string{
				"2024-02-29 10:00:07", "2024-02-29 10:00:19", "2024-02-29 10:01:00", "2024-02-29 10:00:30",
			},
			19782.41699845679,
			[]float64{-.95485042, -.42601017, 1.3808606, .058760025},
		},
		// a year's
		{[]string{"1690000001", "1705000013", "1715000029", "1700000007", "0"}, 1702500012.5, nil},
		// of twenty years
		{[]string{"1000000001", "1700000013", "1300000029", "0"}, 0, nil},
		// of decimals, that lie wide
		{[]string{"1.1", "2", "18.1", "17", "3"}, 0, nil},
		// which float32 holds
		{[]string{"19782", "19783", "19784", "19790"}, 0, nil},
		// of no deviation
		{[]string{"16777217", "16777217", "16777217", "1"}, 0, nil},
	} {
		p, n := NewProfile("x", Choices{}), len(c.fields)-1
		for _, field := range c.fields[:n] {
			p.Add([]byte(field), []byte(field))
		}
		made, note := p.Column()
		assert.Equal(t, "", note)
		if math.Abs(made.Offset-c.offset) > 1e-12*c.offset {
			t.Fatalf("%s: %v is taken off, want %v", c.fields, made.Offset, c.offset)
		}
		other := made
		other.Offset += .0078125
		a, _, err := Arrange(List{made}, List{other})
		require.NoError(t, err)
		var features, arranged []float32
		for _, field := range c.fields {
			var row []float32
			features, _, err = made.Append(features, []byte(field))
			require.NoError(t, err)
			row, _, err = other.Append(row, []byte(field))
			require.NoError(t, err)
			arranged = append(arranged, a.Row(nil, row)...)
		}
		mean, deviation := 0., 0.
		for _, x := range features[:n] {
			mean += float64(x) / float64(n)
		}
		for _, x := range features[:n] {
			deviation += (float64(x) - mean) * (float64(x) - mean) / float64(n)
		}
		for i, want := range c.scores {
			for _, x := range []float32{features[i], arranged[i]} {
				if got := (float64(x) - mean) / math.Sqrt(deviation); math.Abs(got-want) > 2e-6 {
					t.Errorf("%s has the score %v, want %v", c.fields[i], got, want)
				}
			}
		}
	}
}

// TestArrange: features of one table, arranged as another's columns say, are those that the values would have
// had there.
func TestArrange(t *testing.T) {
	asked := List{
		{Name: "city", Kind: Category, Categories: []string{"Berlin", "Paris", "Rome"}, Gaps: true},
		{Name: "age", Kind: Number, Mean: 40, Gaps: true},
		{Name: "vip", Kind: Boolean, Mean: .25},
	}
	supplied := List{
		{Name: "vip", Kind: Boolean, Mean: .5, Gaps: true, Missing: 1},
		{Name: "height", Kind: Number, Mean: 2},
		{
			Name: "city", Kind: Category, Categories: []string{"Oslo", "Paris", "Rome"},
			Counts: []int64{2, 1, 1}, Other: 3,
		},
		{Name: "age", Kind: Number, Mean: 20, Gaps: true, Missing: 2},
	}
	a, notes, err := Arrange(asked, supplied)
	require.NoError(t, err)
	assert.Equal(t, []string{
		`column city: 5 rows have values that are not known, as "Oslo", which count as other`,
		"columns that are not used: height",
	}, notes)
	var room []float32
	for _, row := range [][4]string{
		{"true", "1.8", "Paris", "33"},
		{"", "1.7", "Oslo", ""},
		{"no", "", "Bergen", "1"},
		{"", "", "Rome", ""},
	} {
		var from, want []float32
		for i, field := range row {
			from, _, err = supplied[i].Append(from, []byte(field))
			require.NoError(t, err)
		}
		for _, i := range []int{2, 3, 0} {
			var unknown bool
			want, unknown, err = asked[asked.Places()[supplied[i].Name]].Append(want, []byte(row[i]))
			require.NoError(t, err)
			assert.Equal(t, i == 2 && (row[i] == "Oslo" || row[i] == "Bergen"), unknown)
		}
		room = a.Row(room, from)
		assert.Equal(t, want, room)
	}
	for _, c := range []struct {
		supplied List
		want     string
	}{
		{supplied[:3], "there is no column age"},
		{supplied[1:2], "there is no column city, age, vip"},
		{List{{Name: "city", Kind: Number}}, "column city is a number, where it was a category"},
	} {
		_, _, err := Arrange(asked, c.supplied)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if row := []float32{1, 2}; &(*Arrangement)(nil).Row(nil, row)[0] != &row[0] {
		t.Error("without an arrangement a row is copied")
	}
}

// TestCheck refuses what a damaged file may say.
func TestCheck(t *testing.T) {
	good := Column{Name: "a", Kind: Category, Categories: []string{"x", "y"}, Counts: []int64{1, 2}}
	require.NoError(t, List{good}.Check(2))
	for name, c := range map[string]Column{
		"no kind":               {Name: "a"},
		"categories of a date":  {Name: "a", Kind: Date, Categories: []string{"x"}},
		"no categories":         {Name: "a", Kind: Category, Gaps: true},
		"descending categories": {Name: "a", Kind: Category, Categories: []string{"y", "x"}},
		"equal categories":      {Name: "a", Kind: Category, Categories: []string{"x", "x"}},
		"counts": {
			Name: "a", Kind: Category, Categories: []string{"x"},
			Counts: []int64{1, 2},
		},
		"cycle of a number": {Name: "a", Kind: Number, Cycles: []Cycle{Day}},
		"unknown cycle":     {Name: "a", Kind: Date, Cycles: []Cycle{"moon"}},
		"order of a number": {Name: "a", Kind: Number, Order: DayFirst},
		"order":             {Name: "a", Kind: Date, Order: "sun"},
		"mean":              {Name: "a", Kind: Number, Mean: float32(math.Inf(1))},
	} {
		if (List{c}).Check(c.Width()) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if (List{good}).Check(3) == nil || (List{good, good}).Check(4) == nil {
		t.Error("another number of features, or two columns of a name, are taken")
	}
}

// TestWide: the work grows with the number of columns, and not with its square, which would be 10¹⁰ steps
// here.
func TestWide(t *testing.T) {
	var all List
	for k := range 100_000 {
		all = append(all, Column{Name: strconv.Itoa(k), Kind: Number})
	}
	require.NoError(t, all.Check(len(all)))
	_, notes, err := Arrange(all[1:], all)
	require.NoError(t, err)
	assert.Equal(t, []string{"columns that are not used: 0"}, notes)
}
