import ArgumentParsing
import ClientCommands

/// `martlet pub`: publishes a message, or many.
struct PubCommand: ClientSubcommand {
    static let command = ClientCommand.pub
    static let configuration = CommandConfiguration(
        commandName: "pub",
        abstract: "Publish a message, a file, or the lines of standard input.",
        discussion: """
            Takes the options of mosquitto_pub, and reads defaults from its file, ~/.config/mosquitto_pub.

              martlet pub -t home/kitchen/lamp -m on -r
              tail -f log | martlet pub -t logs/web -l -q 1

            Lines leave in their order. While the broker is away they wait, and those of QoS 1 and 2 that were not acknowledged are sent again.

            \(exitCodes)
            """,
        hasShortHelp: false)
}

/// `martlet sub`: prints messages.
struct SubCommand: ClientSubcommand {
    static let command = ClientCommand.sub
    static let configuration = CommandConfiguration(
        commandName: "sub",
        abstract: "Subscribe, and print the messages that come.",
        discussion: """
            Takes the options of mosquitto_sub, and reads defaults from its file, ~/.config/mosquitto_sub. A connection that is lost is made again \
            after a second, and again. Messages of QoS 1 and 2 are acknowledged when they are printed.

              martlet sub -t 'home/#' -v
              martlet sub -t 'home/+/temperature' -F '@H:@M:@S %t %p'

            \(formats)

            \(jsonLines)

            \(exitCodes)
            """,
        hasShortHelp: false)
}

/// `martlet request`: asks, and prints the answer.
struct RequestCommand: ClientSubcommand {
    static let command = ClientCommand.request
    static let configuration = CommandConfiguration(
        commandName: "request",
        abstract: "Send a request, and print the answer.",
        discussion: """
            Takes the options of mosquitto_rr, and reads defaults from its file, ~/.config/mosquitto_rr. The answer is awaited on the topic of -e; with \
            MQTT 5.0 that may be left out, a topic of its own is taken then.

              martlet request -t calc/add -m '1 2' -W 5

            An answer with other Correlation Data than the request's is somebody else's. Formats and JSON lines are those of martlet sub.

            \(exitCodes)
            """,
        hasShortHelp: false)
}

/// `martlet respond`: answers requests.
struct RespondCommand: ClientSubcommand {
    static let command = ClientCommand.respond
    static let configuration = CommandConfiguration(
        commandName: "respond",
        abstract: "Answer requests, with one message or with what a command writes.",
        discussion: """
            Connects as martlet sub does. The command is run for each request; it finds the request's topic in MARTLET_TOPIC, the answer's in \
            MARTLET_RESPONSE_TOPIC and the request's Content Type in MARTLET_CONTENT_TYPE. When it ends with another exit code than 0 the answer \
            has the user property martlet-answer with the value failure. A request of QoS 1 or 2 is acknowledged when it is answered.

              martlet respond -t calc/add -- awk '{ print $1 + $2 }'

            \(exitCodes)
            """,
        hasShortHelp: false)
}

/// `martlet mirror`: shows topics live.
struct MirrorCommand: ClientSubcommand {
    static let command = ClientCommand.mirror
    static let configuration = CommandConfiguration(
        commandName: "mirror",
        abstract: "Show topics and their latest messages as a live tree.",
        discussion: """
            Each topic with its latest message, an R if the broker keeps it, its age and its rate; what has just changed stands out. Where standard \
            output is no terminal each message is a line: topic and payload, or with --json JSON as martlet sub writes it.

              martlet mirror 'home/#'

            Keys:
              arrows, page up and down, home, end    scroll
              /                                      show only topics and messages that contain a text
              escape                                 show all again
              p                                      pause and resume
              q, ctrl-c                              quit

            \(exitCodes)
            """,
        hasShortHelp: false)
}

private let exitCodes = """
    Exit codes:
      0          all is done, or the command was told to end by SIGINT or SIGTERM
      1          the arguments are wrong, or nothing can be reached
      1 to 5     with MQTT 3.1 and 3.1.1: the broker does not let us in (CONNACK)
      27         the time of -W is over
      16, 128…   with MQTT 5.0: the reason code of what the broker refused
    """

private let formats = """
    Parts of a format of -F, as mosquitto_sub has them; a flag - or 0, a least width and .most may follow the %:
      %t  topic              %p  payload           %x %X  payload in hexadecimal
      %q  QoS                %r  retained, 1 or 0  %l  payload's length in bytes
      %m  packet identifier  %A  topic alias       %C  content type
      %D  correlation data   %E  message expiry    %F  payload format indicator
      %P  user properties    %R  response topic    %S  subscription identifier
      %I  time, ISO 8601     %U  Unix time in s    %j  JSON, the payload as text
      %J  JSON, the payload as JSON                %%  %
      @H  strftime's %H, and so on                 @N  nanoseconds    @@  @
      \\n  line feed         \\r  return           \\t \\v  tabs
      \\a  bell              \\e  escape           \\0  null         \\\\  backslash
    """

private let jsonLines = """
    Fields of a line of --json; what is absent is left out:
      time                     arrival, RFC 3339 with nanoseconds
      topic                    text
      payload, payload_base64  as text, or in base 64 if it is no UTF-8
      qos                      0, 1 or 2
      retain, duplicate        true or false
      packet_identifier        of QoS 1 and 2
      properties               payload_format_indicator, message_expiry_interval,
                               content_type, response_topic, correlation_data or
                               correlation_data_base64,
                               subscription_identifiers (a list),
                               user_properties (a list of pairs)
    """
