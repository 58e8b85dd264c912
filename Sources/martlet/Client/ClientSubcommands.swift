import Commands
import Glibc
import MartletServer
import Platform

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

/// A command whose options stand in `ClientOption`: its help, manual and completions are made of that table, and
/// `ClientArguments` reads its arguments as mosquitto's programs do.
protocol ClientSubcommand: ParsableCommand {
    static var command: ClientCommand { get }
}

extension ClientSubcommand {
    func definitions() -> [ArgumentDefinition] {
        ClientOption.all(of: Self.command).map { $0.description.definition(help: $0.help(of: Self.command)) } + positional
    }

    private var positional: [ArgumentDefinition] {
        switch Self.command {
        case .pub, .sub, .request: []
        case .mirror: [repeating(ArgumentHelp("The filters to subscribe to. (default: #)", valueName: "filter"), .next)]
        case .respond:
            [
                repeating(
                    ArgumentHelp(
                        "The command that answers: it gets a request's payload on standard input and writes the answer to standard output.",
                        valueName: "command"), .postTerminator)
            ]
        }
    }

    private func repeating(_ help: ArgumentHelp, _ parsing: ArgumentParsingStrategy) -> ArgumentDefinition {
        var definition = ArgumentDefinition(.positional, names: [], valueName: "", help: help)
        definition.isRepeating = true
        definition.parsing = parsing
        return definition
    }
}

extension ClientOption.Description {
    /// The option as the parser of the command line knows options.
    fileprivate func definition(help: String) -> ArgumentDefinition {
        let names = names.map { name -> ArgumentDefinition.Name in
            name.hasPrefix("--") ? .long(String(name.dropFirst(2))) : .short(name[name.index(after: name.startIndex)])
        }
        var definition = ArgumentDefinition(
            value == nil ? .flag : .option, names: names, valueName: value?.split(separator: " ").joined(separator: "-") ?? "",
            help: ArgumentHelp(help))
        definition.parsing = .unconditional
        definition.completion = completion.kind
        return definition
    }
}

extension ClientOption.Completion {
    fileprivate var kind: CompletionKind {
        switch self {
        case .nothing: .none
        case .file: .file
        case .directory: .directory
        case .words(let words): .list(words)
        }
    }
}

/// The start of a client command: its arguments and its options file become what it is to do.
enum ClientCommandStart {
    /// Runs the command to the end of the process. Returns when the help is wanted.
    static func run(_ command: any ClientSubcommand.Type, _ words: [String]) {
        do throws(ArgumentError) {
            guard CommandLine.arguments.allSatisfy({ !$0.unicodeScalars.contains("\u{FFFD}") }) || argumentsAreText() else {
                throw ArgumentError.notText
            }
            let kind = command.command
            switch try ClientArguments.read(words, for: kind, defaults: try defaults(for: kind, words)) {
            case .run(let arguments): CommandProcess.run(arguments)
            case .version:
                Console.say("martlet version \(ProductVersion.text)")
                exit(EXIT_SUCCESS)
            case .help: return
            }
        } catch {
            Console.complain("\(error)\nSee 'martlet \(command.command.rawValue) --help' for more information.")
            exit(EXIT_FAILURE)
        }
    }

    private static func defaults(for command: ClientCommand, _ words: [String]) throws(ArgumentError) -> [OptionsFile.Line] {
        let environment = ConfigurationSource.environment
        guard let (path, mustExist) = try OptionsFile.path(for: command, words, variable: { environment[$0] }) else { return [] }
        do throws(WholeFile.Failure) {
            return try OptionsFile.lines(of: path)
        } catch {
            guard mustExist else { return [] }
            throw ArgumentError.unreadable(path)
        }
    }

    /// What was given in other bytes would be sent in others than were given.
    private static func argumentsAreText() -> Bool {
        CommandLine.unsafeArgv.withMemoryRebound(to: UnsafeMutablePointer<CChar>?.self, capacity: Int(CommandLine.argc)) { words in
            (0..<Int(CommandLine.argc)).allSatisfy { words[$0].map { String(validatingCString: $0) != nil } ?? true }
        }
    }
}
