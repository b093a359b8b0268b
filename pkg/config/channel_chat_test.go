package config_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// newChatWorld has channels of a chat and of mail with words of their own, at the end of people.yaml.
func newChatWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.env["TEAM_CHAT"] = "https://hooks.slack.com/services/T0/B0/hushed"
	w.replace("people.yaml", "  - id: help-desk\n", `  - id: team-chat
    kind: slack
    slack:
      url: ${TEAM_CHAT}
      template:
        text: |
          {{.ActionType}} waits.
          {{if eq .Kind "reminder"}}Still: {{.TimeLeft}}{{else}}Until {{.DecideBy}}{{end}}
  - id: workflow
    kind: teams
    teams: {url_file: /run/secrets/workflow, template: {file: workflow.tmpl}}
  - id: own-words
    kind: email
    email:
      server: 127.0.0.1:25
      from: holdpoint@example.test
      to: [sam@example.test]
      tls: none
      template: {subject: "{{.ActionType}} ({{.Risk}})", file: own.tmpl}
  - id: help-desk
`)
	w.fs[demo+"messages/workflow.tmpl"] = &fstest.MapFile{Data: []byte("{{/* for the team */}}{{.ActionType}} of {{.Tenant}},\n{{.Risk}} risk\n")}
	w.fs[demo+"messages/own.tmpl"] = &fstest.MapFile{Data: []byte("Please look.\n\n{{.CorrelationID}}\n{{.Link}}\n")}
	return w
}

func TestChatChannels(t *testing.T) {
	t.Parallel()

	t.Run("AreRead", func(t *testing.T) {
		t.Parallel()
		loaded, err := newChatWorld(t).load()
		require.NoError(t, err)
		channels := loaded.Tenants[0].Channels
		require.Equal(t, &config.Chat{URL: "https://hooks.slack.com/services/T0/B0/hushed", AllowedHosts: []string{"hooks.slack.com"},
			Template: &config.MessageTemplate{Text: "{{.ActionType}} waits.\n{{if eq .Kind \"reminder\"}}Still: {{.TimeLeft}}{{else}}" +
				"Until {{.DecideBy}}{{end}}"}}, channels[1].Chat)
		require.Equal(t, "/run/secrets/workflow", channels[2].Chat.URLFile)
		require.Contains(t, channels[2].Chat.Template.Text, "{{.Risk}} risk")
		require.Nil(t, channels[2].Email)
		require.Equal(t, &config.MessageTemplate{Subject: "{{.ActionType}} ({{.Risk}})", Text: "Please look.\n\n{{.CorrelationID}}\n{{.Link}}\n"},
			channels[3].Email.Template)
	})

	t.Run("ARoomOnThisMachineMayBePlain", func(t *testing.T) {
		t.Parallel()
		w := newChatWorld(t)
		w.env["TEAM_CHAT"] = "http://127.0.0.1:7080/hooks/chat"
		_, err := w.load()
		require.NoError(t, err)
	})
}

func TestChatChannelsRefused(t *testing.T) {
	t.Parallel()
	const text, own, workflow, people = "{{.ActionType}} waits.", "messages/own.tmpl", "messages/workflow.tmpl", "people.yaml"
	const url = "url: ${TEAM_CHAT}"
	for _, tc := range []refusal{
		{"ALiteralAddress", people, url, "url: https://hooks.slack.com/services/T0/B0/hushed", "people.yaml:61:12: url must be ${NAME}, without a default"},
		{"AnAddressAsADefault", people, url, "url: ${TEAM_CHAT:-https://hooks.slack.com/hushed}", "url must be ${NAME}, without a default"},
		{"AnAddressThatIsNotSet", people, url, "url: ${OTHER_CHAT}", "url needs the environment variable OTHER_CHAT"},
		{"AnAddressInTheClear", people, url, "url: ${PLAIN_CHAT}", "url must be an https URL"},
		{"AnAddressWithAUser", people, url, "url: ${USER_CHAT}", "url must have no user or fragment"},
		{"AHostThatIsNotTheAddresss", people, url, url + "\n      allowed_hosts: [hooks.example.com]",
			`allowed_hosts lacks "hooks.slack.com", the host of url`},
		{"AHostThatIsNone", people, "{url_file: /run/secrets/workflow,", "{url_file: /run/secrets/workflow, allowed_hosts: [a/b],",
			`allowed_hosts has "a/b", which must be host or host:port`},
		{"TwoAddresses", people, url, url + "\n      url_env: TEAM_CHAT", "slack must have exactly one of url, url_env, url_file; it has 2"},
		{"NoAddress", people, "url_file: /run/secrets/workflow, ", "", "teams must have exactly one of url, url_env, url_file; it has 0"},
		{"AnotherKindsSettings", people, "kind: teams", "kind: slack", "teams is for kind teams; this channel's kind is slack"},
		{"ATemplateOfAWebhook", people, "    kind: webhook\n    timeout: 10s\n    webhook:\n", "    kind: webhook\n    timeout: 10s\n    webhook:\n      template: {text: x}\n",
			"template is not a known setting here"},

		{"AFieldThatIsNone", people, text, text + "\n          {{.Amount}}", "people.yaml:65:13: the template takes {{.Amount}}, which a message has not"},
		{"AFieldOfMailInAChat", people, text, "{{.CorrelationID}}", "the template takes {{.CorrelationID}}"},
		{"AFieldInABranchThatIsNotTaken", people, text, `{{if eq .Kind "x"}}{{.Reason}}{{end}}`, "the template takes {{.Reason}}"},
		{"AFieldOfAField", people, text, "{{.Tenant.Name}}", "the template takes {{.Tenant.Name}}"},
		{"EverythingAtOnce", people, text, "{{.}}", "the template has ., which is not for messages"},
		{"AVariable", people, text, "{{$x := .Risk}}a", "the template declares a variable"},
		{"ALoop", people, text, "{{range 1000000000}}a{{end}}", "which is not for messages"},
		{"AFunctionThatIsNotForMessages", people, text, `{{printf "%99999999s" .Risk}}`, "the template uses printf; allowed: and, or, not, eq, ne"},
		{"ATemplateInATemplate", people, text, `{{define "x"}}{{.Amount}}{{end}}a`, "must be one template"},
		{"AChatThatSaysTooMuch", people, text, `{{if eq .Kind "escalation"}}` + strings.Repeat("a", 2001) + `{{end}}a`, "a message of more than 2000 characters"},
		{"AChatThatSaysNothingAtTimes", workflow, "{{.ActionType}} of {{.Tenant}},\n{{.Risk}} risk", `{{if ne .Kind "reminder"}}a{{end}}`,
			"workflow.tmpl:1:1: the template says nothing where .Kind is reminder"},
		{"AFieldThatIsNoneInAFile", workflow, "{{.Risk}}", "a {{.Customer}}", "workflow.tmpl:2:5: the template takes {{.Customer}}"},
		{"AFileThatCannotBeRead", workflow, "{{.Risk}}", "{{.Risk", "workflow.tmpl:2:1: the template cannot be read: "},
		{"AnEmptyFile", own, "Please look.\n\n{{.CorrelationID}}\n{{.Link}}", "", "own.tmpl:1:1: must not be empty"},
		{"AFileThatIsNotThere", people, "file: own.tmpl", "file: other.tmpl", "there is no file tenants/demo/messages/other.tmpl"},
		{"AFileElsewhere", people, "file: own.tmpl", "file: ../own.tmpl", `file is "../own.tmpl", allowed`},
		{"MailWithoutTheLink", own, "{{.Link}}", "", "own.tmpl:1:1: the template must have {{.Link}}"},
		{"ASubjectOfTwoLines", people, `"{{.ActionType}} ({{.Risk}})"`, `"a\nb"`, "a subject that is not one line"},
		{"TwoTexts", people, "file: own.tmpl", "text: '{{.Link}}', file: own.tmpl", "template must have subject, or one of text and file"},
		{"NoText", people, "{file: workflow.tmpl}", "{}", "template must have exactly one of text, file; it has 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newChatWorld(t)
			w.env["PLAIN_CHAT"], w.env["USER_CHAT"] = "http://hooks.slack.com/hushed", "https://hushed:p@hooks.slack.com/x"
			w.replace(tc.file, tc.old, tc.new)
			_, err := w.load()
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "hushed")
		})
	}
}

// TestTheExamplesCommentLoads uncomments the channel at the end of the example's people.yaml, and loads it where it says.
func TestTheExamplesCommentLoads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, commented, found := strings.Cut(string(w.fs[demo+"people.yaml"].Data), "#   - id: support-slack\n")
	require.True(t, found)
	w.replace("people.yaml", "  - id: help-desk\n", "  - id: support-slack\n"+strings.ReplaceAll("\n"+commented, "\n# ", "\n")[1:]+"  - id: help-desk\n")
	w.env["SUPPORT_SLACK_URL"] = "https://hooks.slack.com/services/T0/B0/x"
	loaded, err := w.load()
	require.NoError(t, err)
	chat := loaded.Tenants[0].Channels[1]
	require.Equal(t, []string{"support-slack", config.ChannelSlack, "support-lead"}, []string{chat.ID, chat.Kind, chat.Roles[0]})
	require.Contains(t, chat.Chat.Template.Text, "{{.TimeLeft}} left.")
}
