package inference

import (
	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/nn"
)

// requestAlone is what a run asks for, on one worker whatever the mesh of the run was, with the given
// settings.
func requestAlone(command string, args []string, settings *cli.SettingFlags,
) (asked session.Request, err error) {
	asked, o, _, err := session.RequestOf(args)
	if err != nil {
		return asked, err
	}
	if err := asked.HasGraph(command, args); err != nil {
		return asked, err
	}
	o.Parallel, o.Partitions, o.Offload = "", 0, ""
	o.ResetOtherAxes(func(string) bool { return false })
	if err := settings.Override(&o); err != nil {
		return asked, err
	}
	asked.Options, err = cli.Resolved(&o, settings.GivenNames()...)
	return asked, err
}

// openAlone opens the graph on one worker, in the form that the weights expect. It refuses outputs that
// are files of the graph.
func openAlone(cmd *cobra.Command, asked *session.Request, weights nn.State, outputs cli.Outputs,
) (*session.Session, error) {
	notes := cmd.ErrOrStderr()
	opened, err := session.Open(cmd.Context(), cli.Alone(), asked.Source(), asked.Options, notes,
		session.Opening{Admit: func(store string) error {
			return outputs.CheckApartFromGraph(asked.Graph, store)
		}})
	if err != nil {
		return nil, err
	}
	asked.AllowUnlabelled(opened)
	if err = asked.MatchRelations(opened.Store); err == nil {
		err = asked.Fits(opened.Job, weights, notes)
	}
	if err == nil {
		err = asked.MatchClasses(opened, notes)
	}
	if err == nil {
		err = asked.WarnChanged(cmd.Name(), notes)
	}
	if err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}
