internal import ClientCore

/// The settings in the session's words.
extension ClientSettings {
    /// Throws the first setting that cannot be.
    func sessionOptions(random: UInt64) throws(ClientError) -> ClientOptions {
        guard !servers.isEmpty || serverProvider != nil else { throw .settings("servers: at least one has to be named") }
        for server in servers {
            if let flaw = server.flaw { throw flaw }
            if version != .v5, case .authenticator? = server.login { throw ClientSettings.Login.needsVersion5 }
        }
        if let flaw = proxy?.flaw { throw flaw }
        guard (0...1).contains(reconnect.jitter) else { throw .settings("reconnect.jitter: 0 to 1, not \(reconnect.jitter)") }
        guard (reconnect.attemptsMax ?? 0) >= 0 else { throw .settings("reconnect.attemptsMax: 0 or more, or nil for no end") }
        guard firstServerCheck.map({ $0.milliseconds > 0 }) ?? true else {
            throw .settings("firstServerCheck: longer than nothing")
        }
        guard let identifier = EncodedString(clientIdentifier) else {
            throw .settings("clientIdentifier: at most 65,535 bytes, without the character U+0000")
        }
        guard (1...65_535).contains(inFlight) else { throw .settings("inFlight: 1 to 65535 messages, not \(inFlight)") }
        guard receiveMaximum > 0 else { throw .settings("receiveMaximum: 1 to 65535 messages") }
        guard queue.messages > 0, queue.bytes > 0 else { throw .settings("queue: at least one message and one byte") }
        guard keepAlive.milliseconds <= 65_535_000 else { throw .settings("keepAlive: at most 65535 seconds") }
        guard subscribeTimeout.milliseconds > 0 else { throw .settings("subscribeTimeout: longer than nothing") }
        if let flaw = login.flaw { throw flaw }
        if case .authenticator = login, version != .v5 { throw ClientSettings.Login.needsVersion5 }
        var options = ClientOptions()
        options.version = version
        options.clientIdentifier = identifier
        options.will = will
        options.keepAliveSeconds = UInt16((keepAlive.milliseconds + 999) / 1000)
        options.receiveMaximum = receiveMaximum
        options.maximumPacketSize = maximumPacketSize
        options.connectProperties.userProperties = userProperties
        options.connectProperties.requestProblemInformation = requestsProblemInformation
        options.connectProperties.requestResponseInformation = requestsResponseInformation
        options.inFlightMessagesMax = inFlight
        options.waitingMessagesMax = .max
        options.acknowledgesAutomatically = false
        options.connectTimeoutMilliseconds = connectTimeout.milliseconds
        options.requestTimeoutMilliseconds = subscribeTimeout.milliseconds
        switch session {
        case .ended:
            options.cleanStart = true
        case .kept(let duration), .keptAnew(let duration):
            options.cleanStart = session == .keptAnew(duration)
            options.sessionExpiryInterval = version == .v5 ? UInt32(clamping: (duration.milliseconds + 999) / 1000) : nil
        }
        // A name that the server makes up is none that a session could be found by, and MQTT 3.1 wants one.
        if identifier.isEmpty, session != .ended || version == .v31 {
            options.clientIdentifier = EncodedString("martlet-\(String(random, radix: 36))") ?? identifier
        }
        return options
    }
}

extension ClientSettings.Login {
    /// What is wrong with it; nil for nothing.
    var flaw: ClientError? {
        guard case .password(let user, let password) = self else { return nil }
        return EncodedString(user) != nil && (password?.utf8.count ?? 0) <= 65_535
            ? nil : .settings("login: user and password have at most 65,535 bytes each")
    }

    static let needsVersion5 = ClientError.settings(
        "login: extended authentication needs MQTT 5.0, which the settings' version is not")
}
