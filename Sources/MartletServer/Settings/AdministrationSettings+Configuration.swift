import Administration
import Configuration

extension AdministrationSettings {
    /// What the administration needs of a configuration.
    ///
    /// - Parameter isUnconfigured: whether there is no file: then everybody on this machine may look.
    init(_ configuration: BrokerConfiguration, isUnconfigured: Bool) {
        self.init()
        let wanted = configuration.administration
        users = wanted.users.mapValues { $0 == .admin ? .admin : .viewer }
        allowsAnonymousMetrics = wanted.areMetricsAnonymous
        hosts = wanted.hosts
        origins = wanted.origins
        payloads = Payloads(rawValue: wanted.payloads.rawValue) ?? .admin
        keepsTokens = wanted.tokenFile != nil
        memoryBytesMax = configuration.limits.memoryBytesMax
        for (index, listener) in configuration.listeners.enumerated() where listener.application == .httpAPI {
            var settings = Listener()
            settings.parts = listener.httpOffers.reduce(into: Parts()) { $0.insert(Parts($1)) }
            settings.isLoopback = listener.isForThisMachine
            settings.anonymousRole = isUnconfigured && settings.isLoopback && listener.security.allowsAnonymous ? .viewer : nil
            listeners[index] = settings
        }
    }
}

extension AdministrationSettings.Parts {
    fileprivate init(_ offer: HTTPOffer) {
        switch offer {
        case .health: self = .health
        case .metrics: self = .metrics
        case .api: self = .api
        case .dashboard: self = .dashboard
        }
    }
}
