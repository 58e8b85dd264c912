import Administration
import BrokerModel
import ClusterGateway
import Configuration
import Glibc
import HTTPServer
import Platform
import Security
import ServerLoops
import Transports

/// Seeing and steering the broker over HTTP. On the control thread.
extension Server {
    /// Makes the administration of this broker.
    func makeAdministration(_ brokerClient: BrokerClient, _ login: HTTPLogin) -> Administration {
        if let reread { record(reread()) }
        let broker = ServedBroker(self, brokerClient, login)
        let administration = Administration(broker: broker, settings: administrationSettings, tokens: readTokens())
        broker.report = { [unowned administration] in administration.report($0, at: Self.moment()) }
        self.administration = administration
        control.repeatEvery(Self.tickMilliseconds) { [unowned self, unowned administration] in
            administration.tick(Self.moment)
            // One loop counts it for all, where anybody asks how much memory is used up.
            guard configuration.limits.memoryBytesMax != nil else { return }
            loops.first?.mailbox.post(.remembered(byteCount: administration.heldBytes + (http?.heldBytes ?? 0)))
        }
        if reread == nil { showLink(administration) }
        return administration
    }

    /// The present moment.
    static func moment() -> Moment {
        let now = MonotonicClock.milliseconds()
        return Moment(milliseconds: now, wallMilliseconds: now &+ WallClock.offsetMilliseconds())
    }

    /// Handles a message to the control thread.
    func received(_ message: ControlLoopMessage) {
        switch message {
        case .answer(let answer): brokerClient?.received(answer, now: control.events.nowMilliseconds)
        case .decided(let decision): http?.decided(decision)
        case .logged(let line): administration?.report(AdministeredLogLine(line), at: Self.moment())
        case .bansInForce: bans?.isInForce()
        case .offence(let offence): bans?.received(offence, at: Self.moment())
        case .traced(let batch): administration?.record(batch, at: Self.moment())
        case .bridges(let statuses): record(statuses)
        case .cluster(let status): record(status)
        case .access(let news): received(news)
        case .securityRead(let model): securityService?.read(model)
        case .clusterReached: syncWatch?.ask()
        case .syncConducts(let conducts): syncWatch?.received(conducts)
        case .clusterAsked(let number, let question): clusterAdministration?.asked(number, question)
        case .clusterAnswered(let token, let reports): clusterAdministration?.answered(token, reports)
        case .reloaded: reloadIsInForce()
        case .control(let message): received(message)
        case .hashed(let passwords): securityService?.hashed(passwords)
        case .entryHashed(let number, let entry): hasher.hashed(number, entry)
        case .store(let report):
            switch report {
            case .full: storeTrouble = .full
            case .failed: storeTrouble = .failed
            case .committed, .hasRoom, .rows: storeTrouble = .good
            }
        }
    }

    private var administrationSettings: AdministrationSettings {
        AdministrationSettings(configuration, isUnconfigured: reread == nil)
    }

    /// Applies a reloaded configuration to the administration.
    func renewAdministration() {
        reloadedAt = Self.moment().wallMilliseconds
        administration?.apply(administrationSettings, tokens: readTokens())
    }

    /// Logs a link to the dashboard. A broker without a configuration has no users: whoever can read its log may
    /// administer it.
    private func showLink(_ administration: Administration) {
        guard let (listener, _) = open.httpSockets.first(where: { $0.listener.boundAddress.path == nil }) else { return }
        let address = listener.boundAddress.description
        log.write(
            .notice,
            "Administration: http://\(address)/dashboard/#token=\(administration.makeLinkSecret()) lets one browser in as administrator."
        )
    }

    private func readTokens() -> TokenTable {
        guard let path = configuration.administration.tokenFile else { return TokenTable() }
        do throws(WholeFile.Failure) {
            let bytes = try WholeFile.text(of: path, bytesMax: Limits.tokenFileBytesMax)
            return TokenTable(String(decoding: bytes, as: UTF8.self)) { [log] line in
                log.write(.warning, "Warning: \(path):\(line): this is no token, and is passed over.")
            }
        } catch {
            // There is none before the first one is made.
            if case .refused(let reason) = error, reason.errno == ENOENT { return TokenTable() }
            log.write(.error, "Error: martlet_http_token_file \(path) cannot be read: \(error).")
            return TokenTable()
        }
    }

    private static let tickMilliseconds: UInt64 = 1000

    // MARK: What is logged

    /// Chooses the kinds of log lines, until the configuration is read again.
    func chooseLogTopics(_ topics: LogTopics) {
        log.choose(topics)
        renewSettings()
    }

    /// Gives the loops the settings that an administrator has changed.
    func renewSettings() {
        guard let http else { return }
        let settings = brokerSettings(log.topics, http.login.tables)
        sendToLoops(.settings(settings, http.login.tables, Countdown(loops: loops.count) {}))
    }

    // MARK: The configuration, shown

    /// Takes note of a configuration that has come into force.
    func record(_ result: ConfigurationResult) {
        (places, digest) = (result.places, nil)
    }

    /// The SHA-256 of the lines in force, in hexadecimal. Made when somebody asks for the first time: the library that
    /// hashes takes 2 MB. nil without a file.
    private var digestOfPlaces: String? {
        guard places.file != nil else { return nil }
        if let digest { return digest }
        let text = places.lines.map { "\($0.file):\($0.line):\($0.name) \($0.value)\n" }.joined()
        let made = HashFunction.sha256.digest(Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        digest = made
        return made
    }

    /// All options: the lines that name one, else its default.
    var configurationReport: ConfigurationReport {
        var options: [ConfigurationReport.Option] = []
        for option in ConfigurationOption.all where option.canonicalName == nil && option.status == .supported {
            let lines = places.lines.filter {
                ConfigurationOption.named($0.name).map { ($0.canonicalName ?? $0.name) == option.name } ?? false
            }
            for line in lines {
                options.append(
                    .init(
                        name: line.name, value: ConfigurationOption.isSecret(line.name) ? "***" : line.value, isDefault: false,
                        listener: places.listener(of: line).map {
                            ListenerName.of(configuration.listeners[listenersOfFiles[$0]].endpoint)
                        },
                        file: line.file, line: line.line, reloads: option.isReloadable))
            }
            guard lines.isEmpty else { continue }
            options.append(
                .init(
                    name: option.name, value: option.defaultText, isDefault: true, listener: nil, file: nil, line: nil,
                    reloads: option.isReloadable))
        }
        return ConfigurationReport(file: places.file, digest: digestOfPlaces, options: options)
    }
}

/// Which processes of this machine may do everything over a Unix socket: root's, and those of the broker's user.
/// Belongs to the control thread.
///
/// Members of the broker's group are not among them: a proxy that reaches the socket through its group brings
/// strangers.
final class TrustedProcesses {
    /// By their numbers.
    private var names: [UInt32: String] = [:]

    func includes(_ user: UInt32) -> Bool { user == 0 || user == geteuid() }

    /// What the audit calls a user of this machine.
    func name(of user: UInt32) -> String {
        if let name = names[user] { return name }
        // This thread alone asks for users while the broker runs: the static answer is its own.
        let name = getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "uid \(user)"
        names[user] = name
        return name
    }
}

extension Limits {
    /// Bytes of the file of tokens; a larger one is refused.
    static let tokenFileBytesMax = 1 << 20
}
