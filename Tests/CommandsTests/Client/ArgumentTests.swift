import Commands
import MQTTCodec
import Testing

/// Arguments in, settings or exact complaints out.
@Suite struct ArgumentTests {
    struct Refusal: Sendable, CustomTestStringConvertible {
        let command: ClientCommand
        let line: String
        let complaint: String

        init(_ command: ClientCommand, _ line: String, _ complaint: String) {
            (self.command, self.line, self.complaint) = (command, line, complaint)
        }

        var testDescription: String { "\(command.rawValue) \(line)" }
    }

    /// What mosquitto's programs say to the same, but where it is marked that they say otherwise.
    static let refusals: [Refusal] = [
        Refusal(.sub, "", "Error: You must specify a topic to subscribe to."),
        Refusal(.sub, "-t", "Error: -t argument given but no topic specified."),
        Refusal(.sub, "--topic", "Error: -t argument given but no topic specified."),
        Refusal(.sub, "-t a/#/b", "Error: Invalid subscription topic 'a/#/b', are all '+' and '#' wildcards correct?"),
        Refusal(.sub, "-T a/#/b", "Error: Invalid filter topic 'a/#/b', are all '+' and '#' wildcards correct?"),
        Refusal(.sub, "-U #/b", "Error: Invalid unsubscribe topic '#/b', are all '+' and '#' wildcards correct?"),
        Refusal(.sub, "-t a -q 3", "Error: Invalid QoS given: 3"),
        // mosquitto takes it for 0.
        Refusal(.sub, "-t a -q x", "Error: Invalid QoS given: x"),
        Refusal(.sub, "-t a -p 99999", "Error: Invalid port given: 99999"),
        // mosquitto takes it for 0, and that for a Unix socket.
        Refusal(.sub, "-t a -p abc", "Error: Invalid port given: abc"),
        Refusal(.sub, "-t a -k 4", "Error: Invalid keepalive given, it must be between 5 and 65535 inclusive."),
        Refusal(.sub, "-t a --keepalive", "Error: -k argument given but no keepalive specified."),
        Refusal(.sub, "-t a -V 6", "Error: Invalid protocol version argument given."),
        Refusal(.sub, "-t a -V", "Error: --protocol-version argument given but no version specified."),
        Refusal(.sub, "-t a -x z", "Error: session-expiry-interval not a number."),
        Refusal(.sub, "-t a -x -2", "Error: session-expiry-interval out of range."),
        Refusal(.sub, "-t a -x 4294967296", "Error: session-expiry-interval out of range."),
        Refusal(.sub, "-t a -C 0", "Error: Invalid message count \"0\"."),
        Refusal(.sub, "-t a -W 0", "Error: Invalid timeout \"0\"."),
        Refusal(.sub, "-t a -M 0", "Error: Maximum inflight messages must be greater than 0."),
        Refusal(.sub, "-t a -M", "Error: -M argument given but max_inflight not specified."),
        Refusal(.sub, "-t a -i x -I y", "Error: -i and -I argument cannot be used together."),
        Refusal(.sub, "-t a -I x -i y", "Error: -i and -I argument cannot be used together."),
        Refusal(.sub, "-t a -c", "Error: You must provide a client id if you are using the -c option."),
        Refusal(.sub, "-t a -c -I x", "Error: You must provide a client id if you are using the -c option."),
        Refusal(
            .sub, "-t a -c -V 5", "Error: You must provide a client id if you are using an infinite session expiry interval."),
        Refusal(.sub, "-t a -D", "Error: --property argument given but not enough arguments specified."),
        Refusal(.sub, "-t a -D connect receive-maximum", "Error: --property argument given but not enough arguments specified."),
        Refusal(.sub, "-t a -D connect user-property x", "Error: --property argument given but not enough arguments specified."),
        Refusal(.sub, "-t a -D foo x y", "Error: Invalid command given in --property argument."),
        Refusal(.sub, "-t a -D connect foo y", "Error: Invalid property name given in --property argument."),
        Refusal(
            .sub, "-t a -D connect topic-alias-maximum 99999",
            "Error: Property value (99999) out of range for property topic-alias-maximum."),
        Refusal(
            .sub, "-t a -D connect content-type x", "Error: content-type property not allowed for connect in --property argument."),
        Refusal(
            .sub, "-t a -D puback reason-string x", "Error: reason-string property not supported for puback in --property argument."
        ),
        Refusal(
            .pub, "-t a -m x -D publish subscription-identifier 4",
            "Error: subscription-identifier property not supported for publish in --property argument."),
        Refusal(
            .pub, "-t a -m x -D publish payload-format-indicator -1",
            "Error: Property value (-1) out of range for property payload-format-indicator."),
        Refusal(
            .sub, "-t a -D connect session-expiry-interval 3 -D connect session-expiry-interval 3",
            "Error in CONNECT properties: Duplicate property in property list"),
        Refusal(.sub, "-t a -F %", "Error: Incomplete format specifier."),
        Refusal(.sub, "-t a -F %z", "Error: Invalid format specifier 'z'."),
        Refusal(.sub, "-t a -F %-", "Error: Incomplete format specifier."),
        Refusal(.sub, "-t a -F %10.", "Error: Incomplete format specifier."),
        Refusal(.sub, "-t a -F %0-5t", "Error: Invalid format specifier '-'."),
        Refusal(.sub, "-t a -F \\q", "Error: Invalid escape specifier 'q'."),
        Refusal(.sub, "-t a -F \\", "Error: Incomplete escape specifier."),
        Refusal(.sub, "-t a -F @", "Error: Incomplete format specifier."),
        // mosquitto prints as many blanks.
        Refusal(.sub, "-t a -F %1000001t", "Error: A width in a format is at most 1000000."),
        Refusal(.sub, "-t a --cert x", "Error: Both certfile and keyfile must be provided if one of them is set."),
        Refusal(.sub, "-t a --keyform pem", "Error: If keyform is set, keyfile must be also specified."),
        Refusal(
            .sub, "-t a --key x --cert y --keyform engine",
            "Error: --keyform engine is not supported: keys are read from files in the form pem."),
        Refusal(.sub, "-t a --psk 12", "Error: --psk-identity required if --psk used."),
        Refusal(.sub, "-t a --psk 1z --psk-identity x", "Error: --psk takes a key in hexadecimal digits, two for each byte."),
        Refusal(.sub, "-t a --psk 12 --cafile x", "Error: Only one of --psk or --cafile/--capath may be used at once."),
        Refusal(.sub, "-t a --tls-version tlsv9", "Error: --tls-version takes tlsv1.2 or tlsv1.3, not tlsv9."),
        Refusal(
            .sub, "-t a --tls-version tlsv1.1", "Error: --tls-version tlsv1.1 is not supported: TLS before 1.2 is not safe."),
        Refusal(.sub, "-t a --tls-engine x", "Error: --tls-engine is not supported: keys are read from files."),
        Refusal(.sub, "-t a --will-payload x", "Error: Will payload given, but no will topic given."),
        Refusal(.sub, "-t a --will-retain", "Error: Will retain given, but no will topic given."),
        Refusal(.sub, "-t a --will-topic #", "Error: Invalid will topic '#', does it contain '+' or '#'?"),
        Refusal(.sub, "-t a --will-qos 3", "Error: Invalid will QoS 3."),
        Refusal(.sub, "-L foo", "Error: Unsupported URL scheme."),
        Refusal(.sub, "-L mqtt://h", "Error: Invalid URL for -L argument specified - topic missing."),
        Refusal(.sub, "-L mqtt:///t", "Error: Invalid URL for -L argument specified - host missing."),
        Refusal(.sub, "-L mqtt://h:0/t", "Error: Invalid port given: 0"),
        Refusal(.sub, "-L mqtt://h/#/b", "Error: Invalid subscription topic '#/b', are all '+' and '#' wildcards correct?"),
        Refusal(.sub, "-t a --ws-path x", "Error: --ws-path takes a path that begins with a slash."),
        Refusal(.sub, "-t a --ws-header x", "Error: --ws-header takes a name and a value: \"Name: value\"."),
        Refusal(.sub, "-t a -S", "Error: -S is not supported: hosts are not looked up as services; give one with -h."),
        Refusal(.sub, "-t a --nonsense", "Error: Unknown option '--nonsense'."),
        Refusal(.sub, "-t a --quiet=1", "Error: --quiet takes no value."),
        Refusal(.sub, "-t a -m x", "Error: Unknown option '-m'."),
        Refusal(.sub, "-t a extra", "Error: Unknown option 'extra'."),
        Refusal(.sub, "-t a -R --retained-only", "Error: Combining '-R' and '--retained-only' makes no sense."),
        Refusal(.sub, "-t a --random-filter 0", "Error: --random-filter chance must be between 0.1-100.0"),
        Refusal(.sub, "-t a -A", "Error: -A argument given but no address specified."),
        Refusal(.sub, "--unix", "Error: --unix argument given but no socket path specified."),
        Refusal(.sub, "-t a -P x", "Error: A password without a user name needs MQTT 5.0 (-V 5)."),
        Refusal(.pub, "", "Error: Both topic and message must be supplied."),
        Refusal(.pub, "-t a", "Error: Both topic and message must be supplied."),
        Refusal(.pub, "-m x", "Error: Both topic and message must be supplied."),
        Refusal(.pub, "-t a -m x -n", "Error: Only one type of message can be sent at once."),
        Refusal(.pub, "-t a -l -s", "Error: Only one type of message can be sent at once."),
        Refusal(.pub, "-t a/# -m x", "Error: Invalid publish topic 'a/#', does it contain '+' or '#'?"),
        Refusal(.pub, "-t a -m", "Error: -m argument given but no message specified."),
        Refusal(.pub, "-t a -m x --repeat 0", "Error: --repeat argument must be >0."),
        Refusal(.pub, "-t a -m x --repeat-delay -1", "Error: --repeat-delay argument must be >=0.0."),
        Refusal(.pub, "-t a -l --repeat 2", "Error: --repeat makes no sense with -l."),
        Refusal(.pub, "-t a -m x -C 3", "Error: Unknown option '-C'."),
        Refusal(.pub, "-e a -t b -m x", "Error: Unknown option '-e'."),
        Refusal(
            .pub, "-t a -m x -D publish response-topic #", "Error: Invalid response-topic '#', does it contain '+' or '#'?"),
        Refusal(.request, "", "Error: Both topic and message must be supplied."),
        Refusal(.request, "-V 311 -t a -m x", "Error: All of topic, message, and response topic must be supplied."),
        Refusal(.request, "-t a -e b/# -m x", "Error: Invalid response topic 'b/#', does it contain '+' or '#'?"),
        Refusal(
            .request, "-t a -e b -m x -D publish response-topic c",
            "Error in PUBLISH properties: Duplicate response topic."),
        Refusal(.request, "-t a -e b -l", "Error: Unknown option '-l'."),
        Refusal(.respond, "-m x", "Error: You must specify the topic of the requests (-t)."),
        Refusal(.respond, "-t a", "Error: Give either a message (-m, -f, -n or -s) or a command as the answer."),
        Refusal(
            .respond, "-t a -m x -- cat", "Error: Give either a message (-m, -f, -n or -s) or a command as the answer."),
        Refusal(.mirror, "home/#/x", "Error: Invalid subscription topic 'home/#/x', are all '+' and '#' wildcards correct?"),
    ]

    @Test(arguments: refusals)
    func `What is wrong with arguments is said as mosquitto's programs say it`(refusal: Refusal) {
        let words = refusal.line.split(separator: " ").map(String.init)
        do throws(ArgumentError) {
            let wish = try ClientArguments.read(words, for: refusal.command)
            Issue.record("taken as \(wish)")
        } catch {
            #expect(error.description == refusal.complaint)
        }
    }

    private func read(_ command: ClientCommand, _ line: String, defaults: String = "") throws -> ClientArguments {
        let words = line.split(separator: " ").map(String.init)
        let wish = try ClientArguments.read(words, for: command, defaults: OptionsFile.lines(defaults))
        guard case .run(let arguments) = wish else { throw Unexpected() }
        return arguments
    }

    private struct Unexpected: Error {}

    @Test func `Without options it is localhost, MQTT 3_1_1, QoS 0 and 60 seconds`() throws {
        let arguments = try read(.sub, "-t a")
        #expect(arguments.connection.host == "localhost")
        #expect(arguments.connection.usualPort == 1883)
        #expect(!arguments.connection.usesTLS)
        #expect(arguments.version == .v311)
        #expect(arguments.qos == .atMostOnce)
        #expect(arguments.session.keepAliveSeconds == 60)
        #expect(arguments.session.cleanStart)
        #expect(arguments.session.inFlightMessagesMax == 20)
        #expect(arguments.subscribing.filters == ["a"])
        #expect(arguments.printing.output == .payload)
        #expect(try read(.request, "-t a -m x").version == .v5)
    }

    @Test func `Values may begin with a dash, and long names may hold theirs behind an equals sign`() throws {
        #expect(try read(.pub, "-t a -m -5").publishing.source == .text(Array("-5".utf8)))
        #expect(try read(.pub, "-t a -m --help").publishing.source == .text(Array("--help".utf8)))
        #expect(try read(.pub, "--topic=a --message=x=y").publishing.source == .text(Array("x=y".utf8)))
        #expect(try ClientArguments.read(["-t", "a", "--help"], for: .sub) == .help)
        #expect(try ClientArguments.read(["--version"], for: .sub) == .version)
    }

    @Test func `Later options win, filters add up`() throws {
        let arguments = try read(.sub, "-t a -h x -t b -h y -T c -T d/# -U e", defaults: "# mine\n-h z\n-k 30\n\n-t from file")
        #expect(arguments.connection.host == "y")
        #expect(arguments.session.keepAliveSeconds == 30)
        #expect(arguments.subscribing.filters == ["from file", "a", "b"])
        #expect(arguments.subscribing.filtersOut == ["c", "d/#"])
        #expect(arguments.subscribing.unsubscribed == ["e"])
    }

    @Test func `A URL says where, who and what`() throws {
        let arguments = try read(.sub, "-L MQTTS://me:p:w@broker.example/home/+")
        #expect(arguments.connection.host == "broker.example")
        #expect(arguments.connection.usualPort == 8883)
        #expect(arguments.connection.usesTLS)
        #expect(arguments.login.userName == "me")
        #expect(arguments.login.password == Array("p:w".utf8))
        #expect(arguments.subscribing.filters == ["home/+"])
        let socket = try read(.pub, "-L ws://[::1]:8080/a -n")
        #expect(socket.connection.host == "::1")
        #expect(socket.connection.usualPort == 8080)
        #expect(socket.connection.usesWebSocket)
        #expect(!socket.connection.usesTLS)
        #expect(socket.publishing.topic == "a")
        #expect(socket.publishing.source == .null)
    }

    @Test func `TLS is what authorities, a key or port 8883 ask for`() throws {
        #expect(try read(.sub, "-t a --cafile ca.pem").connection.usualPort == 8883)
        #expect(try read(.sub, "-t a --capath cas -p 1").connection.usualPort == 1)
        #expect(try read(.sub, "-t a -p 8883").connection.usesTLS)
        #expect(try !read(.sub, "-t a -p 8883 --no-tls").connection.usesTLS)
        #expect(try read(.sub, "-t a --tls-use-os-certs --tls-version tlsv1.3").connection.tls.versionMin == .tls13)
        #expect(try read(.sub, "-t a --psk 0aFF --psk-identity me").connection.tls.preSharedKey == [10, 255])
        #expect(try !read(.sub, "-t a --unix s").connection.usesTLS)
    }

    @Test func `A session is kept for ever with -c, else as long as -x says`() throws {
        #expect(try read(.sub, "-t a -c -i me -V 5").session.expiryInterval == .max)
        #expect(try read(.sub, "-t a -c -i me -V 5 -x 60").session.expiryInterval == 60)
        #expect(try read(.sub, "-t a -i me -V 5 -x -1").session.expiryInterval == .max)
        #expect(try read(.sub, "-t a -i me -V 5 -x ∞").session.expiryInterval == .max)
        #expect(try read(.sub, "-t a -c -i me").session.expiryInterval == nil)
        #expect(try !read(.sub, "-t a -c -i me").session.cleanStart)
    }

    @Test func `A property makes the version 5 and goes to its packet`() throws {
        let arguments = try read(
            .pub,
            """
            -t a -n -D publish content-type text/plain -D PUBLISH user-property a b -D publish user-property a c \
            -D publish correlation-data x -D connect receive-maximum 7 -D will will-delay-interval 3 --will-topic w -D publish topic-alias 4
            """)
        #expect(arguments.version == .v5)
        #expect(arguments.properties.publish.contentType == "text/plain")
        #expect(
            arguments.properties.publish.userProperties == [
                UserProperty(name: "a", value: "b"), UserProperty(name: "a", value: "c"),
            ])
        #expect(arguments.properties.publish.correlationData == [0x78])
        #expect(arguments.properties.publish.topicAlias == 4)
        #expect(arguments.properties.connect.receiveMaximum == 7)
        #expect(arguments.will?.properties.willDelayInterval == 3)
    }

    @Test func `A responder's command is all that follows, a mirror's filters stand alone`() throws {
        let respond = try read(.respond, "-t a -q 1 --jobs 4 -- tr a-z -A")
        #expect(respond.publishing.program == ["tr", "a-z", "-A"])
        #expect(respond.publishing.jobs == 4)
        #expect(try read(.respond, "-t a cat -n").publishing.program == ["cat", "-n"])
        #expect(try read(.mirror, "home/# -p 1 x/+").subscribing.filters == ["home/#", "x/+"])
        #expect(try read(.mirror, "").subscribing.filters == ["#"])
    }

    @Test func `The options file is mosquitto's own, or what -o names`() throws {
        let home = ["HOME": "/h"]
        let both = ["HOME": "/h", "XDG_CONFIG_HOME": "/x"]
        #expect(try OptionsFile.path(for: .pub, [], variable: { home[$0] })?.path == "/h/.config/mosquitto_pub")
        #expect(try OptionsFile.path(for: .request, [], variable: { both[$0] })?.path == "/x/mosquitto_rr")
        #expect(try OptionsFile.path(for: .mirror, [], variable: { both[$0] })?.path == "/x/mosquitto_sub")
        #expect(try OptionsFile.path(for: .respond, [], variable: { both[$0] }) == nil)
        let given = try OptionsFile.path(for: .mirror, ["-o", "f"], variable: { both[$0] })
        #expect(given?.path == "f")
        #expect(given?.mustExist == true)
        #expect(throws: ArgumentError.self) { try OptionsFile.path(for: .pub, ["-o", "a", "-o", "b"], variable: { _ in nil }) }
        #expect(throws: ArgumentError.self) { try OptionsFile.path(for: .pub, ["-o"], variable: { _ in nil }) }
    }

    @Test func `A line of the options file holds an option and all that follows as its value`() throws {
        let arguments = try read(
            .pub, "-t a", defaults: "-m two words\r\n-D publish user-property name some value\n# -q 2\n  --will-topic w x")
        #expect(arguments.publishing.source == .text(Array("two words".utf8)))
        #expect(arguments.properties.publish.userProperties == [UserProperty(name: "name", value: "some value")])
        #expect(arguments.will?.topic == "w x")
        #expect(arguments.qos == .atMostOnce)
    }

    @Test func `A mirror reads the file of mosquitto_sub, and passes over what only sub has`() throws {
        #expect(ClientCommand.mirror.counterpart == "mosquitto_sub")
        let arguments = try read(.mirror, "a/#", defaults: "-h broker\n-u anna\n-v\n-F %t\n-w\n-P secret")
        #expect(
            arguments.connection.host == "broker" && arguments.login.userName == "anna"
                && arguments.login.password == Array("secret".utf8))
        #expect(throws: ArgumentError.self) { try read(.mirror, "a", defaults: "--nonsense") }
    }

    @Test func `Help says what an option means to its command`() {
        #expect(ClientOption.topic.help(of: .pub) == "The topic to publish to.")
        #expect(!ClientOption.qos.help(of: .pub).contains("subscription"))
        #expect(!ClientOption.version.help(of: .sub).contains("respond"))
    }

    @Test func `Each name belongs to one option, and each option to a command`() {
        let names = ClientOption.allCases.flatMap(\.description.names)
        #expect(Set(names).count == names.count)
        for option in ClientOption.allCases {
            #expect(!option.description.commands.isEmpty)
            #expect(option.description.help.hasSuffix(".") || option.description.help.hasSuffix(")"), "\(option)")
        }
    }
}
