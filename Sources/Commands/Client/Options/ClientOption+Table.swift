public import Platform

extension ClientOption {
    public var description: Description {
        switch self {
        case .host: .value("-h", "--host", "host", "The broker's host. (default: localhost)")
        case .port: .value("-p", "--port", "port", "The broker's port. (default: 1883, with TLS 8883)")
        case .unix:
            .value(nil, "--unix", "path", missing: "socket path", "Connect to a Unix socket.", completion: .file)
        case .url:
            .value(
                "-L", "--url", "url", missing: "URL",
                "Where and what at once: mqtt(s)://[user[:password]@]host[:port]/topic, also with ws:// and wss://.")
        case .webSocket: .flag(nil, "--ws", "Connect with WebSocket.")
        case .webSocketPath:
            .value(nil, "--ws-path", "path", "Connect with WebSocket, to this path and query. (default: /mqtt)")
        case .webSocketHeader:
            .value(
                nil, "--ws-header", "header",
                "Connect with WebSocket, with this header in its request, as \"Name: value\"; may be given more than once.")
        case .bind: .value("-A", nil, "address", "Connect from this local address.")
        case .noDelay: .flag(nil, "--nodelay", "No effect: packets are never held back.")
        case .proxy:
            .value(
                nil, "--proxy", "url", missing: "proxy url",
                "Connect through a proxy: socks5h://[user[:password]@]host[:port], or http:// for CONNECT.")

        case .identifier: .value("-i", "--id", "id", "The client identifier. (default: assigned by the broker, or random)")
        case .identifierPrefix:
            .value(
                "-I", "--id-prefix", "prefix", missing: "id prefix",
                "The prefix of the client identifier; the process ID follows.")
        case .userName: .value("-u", "--username", "name", missing: "username", "User name.")
        case .password: .value("-P", "--pw", "password", "Password.")
        case .version:
            .value(
                "-V", "--protocol-version", "version",
                "The version of MQTT: 5, 311 or 31, also as mqttv5, mqttv311 and mqttv31. (default: 311; of request, respond and mirror 5)",
                completion: .words(["5", "311", "31"]))
        case .keepAlive:
            .value("-k", "--keepalive", "seconds", missing: "keepalive", "Keep alive, 5 to 65535 seconds. (default: 60)")
        case .keepsSession:
            .flag(
                "-c", "--disable-clean-session", "Keep the session when the connection ends, and resume it. Needs -i.",
                but: [.mirror])
        case .sessionExpiry:
            .value(
                "-x", nil, "seconds", missing: "session expiry interval",
                "How long the session outlives the connection, for MQTT 5.0; -1 for ever. (default: with -c -1, else 0)",
                but: [.mirror])

        case .topic:
            .value("-t", "--topic", "topic", "The topic to publish to, or a filter to subscribe to; filters may be several.")
        case .qos: .value("-q", "--qos", "qos", missing: "QoS", "QoS of messages and subscriptions: 0, 1 or 2. (default: 0)")
        case .retain: .flag("-r", "--retain", "Retain the message for those who subscribe later.", of: [.pub])
        case .message: .value("-m", "--message", "text", missing: "message", "The message.", of: senders)
        case .file: .value("-f", "--file", "file", "Send the contents of a file.", of: senders, completion: .file)
        case .lines: .flag("-l", "--stdin-line", "Send each line of standard input as a message.", of: [.pub])
        case .input: .flag("-s", "--stdin-file", "Send all of standard input as one message.", of: senders)
        case .null: .flag("-n", "--null-message", "Send a message without a payload.", of: senders)
        case .count:
            .value(nil, "--repeat", "count", "Send the message of -m, -n, -f or -s this many times. (default: 1)", of: [.pub])
        case .delay:
            .value(nil, "--repeat-delay", "seconds", missing: "time", "Wait this long between them. (default: 0)", of: [.pub])
        case .inFlight:
            .value("-M", nil, "count", "How many messages of QoS 1 and 2 may be unacknowledged. (default: 20)", but: [.mirror])
        case .responseTopic:
            .value("-e", nil, "topic", missing: "response topic", "The topic on which the answer is awaited.", of: [.request])

        case .messageCount:
            .value("-C", nil, "count", "End after this many messages.", of: [.sub, .respond, .mirror])
        case .timeout:
            .value("-W", nil, "seconds", missing: "timeout", "End after this many seconds, with exit code 27.", but: [.pub])
        case .exitsWhenSubscribed: .flag("-E", nil, "End as soon as the broker has answered all subscriptions.", of: [.sub])
        case .filterOut:
            .value(
                "-T", "--filter-out", "filter", missing: "topic filter",
                "Show nothing of topics that match; may be given more than once.", of: [.sub, .mirror])
        case .unsubscribe:
            .value(
                "-U", "--unsubscribe", "filter", missing: "unsubscribe topic",
                "Unsubscribe in a session that was kept; may be given more than once.", of: [.sub])
        case .noRetained: .flag("-R", nil, "Show no retained messages.", of: [.sub, .request, .mirror])
        case .retainedOnly:
            .flag(nil, "--retained-only", "Show retained messages only, and end with the first other one.", of: [.sub])
        case .retainAsPublished:
            .flag(
                nil, "--retain-as-published", "Let messages keep the retain flag that they were published with, for MQTT 5.0.",
                of: [.sub, .request, .mirror])
        case .removeRetained:
            .flag(nil, "--remove-retained", "Remove the retained messages that come from the broker.", of: [.sub])
        case .randomFilter:
            .value(
                nil, "--random-filter", "percent", missing: "chance", "Show only this share of the messages, 0.1 to 100.0 percent.",
                of: [.sub])
        case .watch:
            .flag(
                "-w", "--watch", "On a terminal, show the latest message of each topic, each topic in a line of its own.",
                of: [.sub])
        case .verbose: .flag("-v", "--verbose", "Print the topic before each message.", of: receivers)
        case .format: .value("-F", nil, "format", "The output format of messages; the manual describes it.", of: receivers)
        case .json:
            .flag(
                nil, "--json", "Print each message as a line of JSON; the manual lists the fields.", of: [.sub, .request, .mirror])
        case .pretty: .flag(nil, "--pretty", "Print the JSON of %j and %J on several lines.", of: receivers)
        case .noNewline: .flag("-N", nil, "Print no newline after messages.", of: receivers)
        case .jobs:
            .value(nil, "--jobs", "count", "How many commands may run at a time. (default: 1)", of: [.respond])

        case .willTopic:
            .value(
                nil, "--will-topic", "topic", missing: "will topic",
                "The topic of the will, which the broker publishes if this client is lost.")
        case .willPayload: .value(nil, "--will-payload", "text", missing: "will payload", "The will's message.")
        case .willQoS: .value(nil, "--will-qos", "qos", missing: "will QoS", "The will's QoS. (default: 0)")
        case .willRetain: .flag(nil, "--will-retain", "Retain the will.")
        case .property:
            .value(
                "-D", "--property", "command property value",
                "A property of MQTT 5.0 in the packet connect, publish, subscribe, unsubscribe, disconnect or will; user-property takes a name and a value. With connect, maximum-packet-size bounds what the broker may send, in bytes. (default: 16777216)"
            )

        case .cafile:
            .value(
                nil, "--cafile", "file", "Connect with TLS; CA certificates for the broker's certificate, PEM.", completion: .file)
        case .capath:
            .value(nil, "--capath", "directory", "The same as a directory, prepared with openssl rehash.", completion: .directory)
        case .cert:
            .value(nil, "--cert", "file", "The client certificate, PEM, for a broker that requires one.", completion: .file)
        case .key: .value(nil, "--key", "file", "The private key of --cert, PEM.", completion: .file)
        case .keyform:
            .value(
                nil, "--keyform", "form", missing: "keyform", "The form of --key: pem, the only one.", completion: .words(["pem"]))
        case .tlsVersion:
            .value(
                nil, "--tls-version", "version", "The lowest version of TLS: tlsv1.2 or tlsv1.3. (default: tlsv1.2)",
                completion: .words(["tlsv1.2", "tlsv1.3"]))
        case .ciphers: .value(nil, "--ciphers", "list", missing: "ciphers", "The ciphers of TLS 1.2, as OpenSSL writes them.")
        case .insecure: .flag(nil, "--insecure", "Do not verify the broker's certificate.")
        case .alpn: .value(nil, "--tls-alpn", "protocol", "The protocol to ask for in TLS (ALPN).")
        case .systemAuthorities:
            .flag(nil, "--tls-use-os-certs", "Connect with TLS; use the system's CA certificates.")
        case .noTLS: .flag(nil, "--no-tls", "Connect without TLS, also to port 8883.")
        case .psk: .value(nil, "--psk", "key", "Connect with TLS and a pre-shared key, in hexadecimal digits.")
        case .pskIdentity: .value(nil, "--psk-identity", "name", missing: "identity", "The identity of the pre-shared key.")
        case .engine: .value(nil, "--tls-engine", "name", missing: "engine_id", "Not supported: keys are read from files.")
        case .enginePassword:
            .value(nil, "--tls-engine-kpass-sha1", "digest", missing: "kpass sha1", "Not supported: keys are read from files.")

        case .optionsFile:
            .value("-o", nil, "file", missing: "options file", "Read options from a file, one a line.", completion: .file)
        case .debug: .flag("-d", "--debug", "Print debug messages to standard output: what is sent and received.")
        case .quiet: .flag(nil, "--quiet", "Print no errors but those of the command line.")
        case .serviceRecord: .flag("-S", nil, "Not supported: hosts are not looked up as services.")
        case .programVersion: .flag(nil, "--version", "Show the version.")
        }
    }

    /// The option's help, where it means something of its own to a command.
    public func help(of command: ClientCommand) -> String {
        switch (self, command) {
        case (.topic, .pub): "The topic to publish to."
        case (.topic, .request): "The topic to send the request to."
        case (.topic, _): "A filter of topics to subscribe to; may be given more than once."
        case (.qos, .pub): "The QoS of the messages: 0, 1 or 2. (default: 0)"
        case (.qos, .sub), (.qos, .mirror): "The QoS of the subscriptions: 0, 1 or 2. (default: 0)"
        case (.version, .pub), (.version, .sub):
            "The version of MQTT: 5, 311 or 31, also as mqttv5, mqttv311 and mqttv31. (default: 311)"
        case (.version, _): "The version of MQTT: 5, 311 or 31, also as mqttv5, mqttv311 and mqttv31. (default: 5)"
        default: description.help
        }
    }

    private var senders: Set<ClientCommand> { [.pub, .request, .respond] }
    private var receivers: Set<ClientCommand> { [.sub, .request] }
}

extension ClientOption.Description {
    fileprivate static func value(
        _ letter: String?, _ word: String?, _ value: String, missing: String? = nil, _ help: String,
        of commands: Set<ClientCommand>? = nil, but others: Set<ClientCommand> = [], completion: ClientOption.Completion = .nothing
    ) -> Self {
        Self(
            names: [letter, word].compactMap(\.self), value: value, missing: missing ?? value, help: help,
            commands: commands ?? Set(ClientCommand.allCases).subtracting(others), completion: completion)
    }

    fileprivate static func flag(
        _ letter: String?, _ word: String?, _ help: String, of commands: Set<ClientCommand>? = nil,
        but others: Set<ClientCommand> = []
    ) -> Self {
        Self(
            names: [letter, word].compactMap(\.self), value: nil, missing: "", help: help,
            commands: commands ?? Set(ClientCommand.allCases).subtracting(others), completion: .nothing)
    }
}

/// The commands that are clients of a broker, under the names that follow `martlet`.
public enum ClientCommand: String, Sendable, CaseIterable {
    case pub, sub, request, respond, mirror

    /// The program of mosquitto's whose file of defaults is read; nil where there is none.
    public var counterpart: String? {
        switch self {
        case .pub: "mosquitto_pub"
        // A mirror subscribes, to the same broker and as the same user.
        case .sub, .mirror: "mosquitto_sub"
        case .request: "mosquitto_rr"
        case .respond: nil
        }
    }
}

/// A file of options, one a line: the option, a blank, and all that follows as its value, as mosquitto's clients read
/// it.
public struct OptionsFile {
    /// The words of a line that says something.
    public struct Line: Equatable, Sendable {
        public let words: [String]

        init(_ words: [String]) { self.words = words }
    }

    /// The lines of a file; fails if it cannot be read or is longer than people write them.
    public static func lines(of path: String) throws(WholeFile.Failure) -> [Line] {
        lines(String(decoding: try WholeFile.text(of: path, bytesMax: Limits.optionsFileBytesMax), as: UTF8.self))
    }

    /// Where a command's file is: what -o names, else the one of mosquitto's program in the user's configuration; nil
    /// if there is none.
    ///
    /// - `variable`: reads a variable of the environment.
    public static func path(
        for command: ClientCommand, _ words: [String], variable: (String) -> String?
    ) throws(ArgumentError) -> (path: String, mustExist: Bool)? {
        let places = words.prefix { $0 != "--" }.indices.filter { words[$0] == "-o" }
        guard places.count <= 1 else { throw ArgumentError("Error: Duplicate -o argument given.") }
        if let place = places.first {
            guard place + 1 < words.count else { throw ArgumentError("Error: -o argument given but no options file specified.") }
            return (words[place + 1], true)
        }
        guard let program = command.counterpart else { return nil }
        if let directory = variable("XDG_CONFIG_HOME") { return ("\(directory)/\(program)", false) }
        return variable("HOME").map { ("\($0)/.config/\(program)", false) }
    }

    /// The lines of a file's text that are no comments.
    public static func lines(_ text: String) -> [Line] {
        text.split(whereSeparator: \.isNewline).compactMap { line in
            guard line.first != "#" else { return nil }
            let words = line.drop { $0 == " " }.split(separator: " ", maxSplits: 1).map(String.init)
            guard let option = words.first else { return nil }
            // An option with several values, as no value of a single one may be split.
            if option == "-D" || option == "--property", words.count > 1 {
                return Line([option] + words[1].split(separator: " ", maxSplits: 3).map(String.init))
            }
            return Line(words)
        }
    }
}
