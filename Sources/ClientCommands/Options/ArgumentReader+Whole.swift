internal import MQTTCodec

/// What makes sense together.
extension ArgumentReader {
    /// The arguments as a whole, if they make sense together.
    func finished() throws(ArgumentError) -> ClientArguments {
        var arguments = arguments
        try checkTLS()
        arguments.will = try will()
        arguments.output = output
        try setSession(&arguments)
        switch arguments.command {
        case .pub:
            guard arguments.topic != nil, arguments.source != nil else {
                throw ArgumentError("Error: Both topic and message must be supplied.")
            }
            guard arguments.source != .lines || arguments.repeatCount == 1 else {
                throw ArgumentError("Error: --repeat makes no sense with -l.")
            }
        case .sub:
            guard !arguments.filters.isEmpty || !arguments.unsubscribed.isEmpty else {
                throw ArgumentError("Error: You must specify a topic to subscribe to.")
            }
            guard !arguments.noRetained || !arguments.retainedOnly else {
                throw ArgumentError("Error: Combining '-R' and '--retained-only' makes no sense.")
            }
        case .request: try finishRequest(&arguments)
        case .respond:
            guard !arguments.filters.isEmpty else { throw ArgumentError("Error: You must specify the topic of the requests (-t).") }
            guard (arguments.source == nil) != arguments.program.isEmpty else {
                throw ArgumentError("Error: Give either a message (-m, -f, -n or -s) or a command as the answer.")
            }
        case .mirror: if arguments.filters.isEmpty { arguments.filters = ["#"] }
        }
        return arguments
    }

    /// MQTT 3.1.1 has no response topics in messages: both sides have to know it.
    private func finishRequest(_ arguments: inout ClientArguments) throws(ArgumentError) {
        guard arguments.topic != nil, arguments.source != nil, arguments.responseTopic != nil || arguments.version == .v5 else {
            throw ArgumentError(
                arguments.version == .v5
                    ? "Error: Both topic and message must be supplied."
                    : "Error: All of topic, message, and response topic must be supplied.")
        }
        guard arguments.properties.publish.responseTopic == nil else {
            throw ArgumentError("Error in PUBLISH properties: Duplicate response topic.")
        }
    }

    private func checkTLS() throws(ArgumentError) {
        let tls = arguments.tls
        guard (tls.certificateFile == nil) == (tls.keyFile == nil) else {
            throw ArgumentError("Error: Both certfile and keyfile must be provided if one of them is set.")
        }
        if let form = tls.keyForm {
            guard tls.keyFile != nil else { throw ArgumentError("Error: If keyform is set, keyfile must be also specified.") }
            guard form == "pem" else {
                throw ArgumentError("Error: --keyform \(form) is not supported: keys are read from files in the form pem.")
            }
        }
        if tls.preSharedKey != nil {
            guard tls.authoritiesFile == nil, tls.authoritiesDirectory == nil else {
                throw ArgumentError("Error: Only one of --psk or --cafile/--capath may be used at once.")
            }
            guard tls.preSharedKeyIdentity != nil else { throw ArgumentError("Error: --psk-identity required if --psk used.") }
        }
    }

    private func will() throws(ArgumentError) -> Will? {
        guard let willTopic else {
            guard willPayload == nil else { throw ArgumentError("Error: Will payload given, but no will topic given.") }
            guard !retainsWill else { throw ArgumentError("Error: Will retain given, but no will topic given.") }
            return nil
        }
        return Will(
            topic: willTopic, payload: willPayload ?? [], qos: willQoS ?? .atMostOnce, retain: retainsWill,
            properties: arguments.properties.will)
    }

    private var output: ClientArguments.Output {
        if isJSON { return .json }
        if let format { return .format(format) }
        return isVerbose ? .verbose : .payload
    }

    private func setSession(_ arguments: inout ClientArguments) throws(ArgumentError) {
        guard arguments.version == .v5 else {
            guard arguments.cleanStart || arguments.identifier != nil else {
                throw ArgumentError("Error: You must provide a client id if you are using the -c option.")
            }
            guard arguments.password == nil || arguments.userName != nil else {
                throw ArgumentError("Error: A password without a user name needs MQTT 5.0 (-V 5).")
            }
            return
        }
        if !arguments.cleanStart, arguments.sessionExpiryInterval == nil { arguments.sessionExpiryInterval = .max }
        if arguments.sessionExpiryInterval == .max, arguments.identifier == nil {
            throw ArgumentError("Error: You must provide a client id if you are using an infinite session expiry interval.")
        }
    }
}

extension ClientOption {
    /// How mosquitto says that the value is missing.
    var missingWords: String { self == .inFlight ? "max_inflight not" : "no \(description.missing)" }
}
