package calls

import (
	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/internal/refusal"
)

// New makes the command calls, which the Python package starts.
func New() *cobra.Command {
	var number int
	cmd := &cobra.Command{
		Use:    "calls --socket N",
		Short:  "compute the passes of models for a process of Python",
		Hidden: true,
		Args:   cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := socket(number)
			if err != nil {
				return refusal.Errorf("--socket %d: %w; weft.compile starts this command", number, err)
			}
			return serve(cmd, c)
		},
		Annotations: map[string]string{cli.JoinsRanks: ""},
	}
	cmd.Flags().IntVar(&number, "socket", -1, "`descriptor` of the program's end of the socket")
	return cmd
}
