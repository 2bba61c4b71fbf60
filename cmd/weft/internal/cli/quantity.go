package cli

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/train/setting"
)

// countFlag is a flag of a whole number, which is written as setting.Count reads it.
type countFlag struct{ pflag.Value }

// Set implements pflag.Value.
func (c countFlag) Set(text string) error {
	if n, err := setting.Count(text); err == nil {
		text = strconv.Itoa(n)
	}
	return c.Value.Set(text)
}

// ReadCounts has the flags of whole numbers of a command, and of those below it, read as counts.
func ReadCounts(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, ours := f.Value.(*SettingValue); !ours && f.Value.Type() == "int" {
				f.Value = countFlag{f.Value}
			}
		})
	}
	for _, c := range cmd.Commands() {
		ReadCounts(c)
	}
}

// linkRate is a rate with its unit. What is before the second is bits, but for a capital B.
var linkRate = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT]?)((?i:bit/s|bit)|bps|b/s|Bps|B/s)$`)

// BytesPerSecond reads a rate as people write it: 100mbit, 10gbps, 25Gb/s or 12.5GB/s. is says whether it is
// one, and more than nothing.
func BytesPerSecond(text string) (rate float64, is bool) {
	m := linkRate.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	rate, err := strconv.ParseFloat(m[1], 64)
	rate *= setting.Thousands[strings.ToLower(m[2])]
	if !strings.HasPrefix(m[3], "B") || strings.HasPrefix(strings.ToLower(m[3]), "bit") {
		rate /= 8
	}
	return rate, err == nil && rate > 0
}
