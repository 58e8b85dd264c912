import Configuration

/// Something that keeps a broker from starting, or that its operator should know, with what it is about: an option, and a listener.
struct StartRemark {
    /// The option whose line is meant, nil for none.
    var option: String?
    /// The listener's index in the configuration, nil for the whole broker.
    var listener: Int?
    /// What the line's value ends with, where there may be several lines.
    var value: String?
    /// One or several sentences.
    var message: String

    /// With the place of the line that is meant.
    func diagnostic(_ severity: Diagnostic.Severity, in result: ConfigurationResult) -> Diagnostic {
        let places = result.places
        if let option, let line = places.line(of: option, listener: listener, value: value) {
            return Diagnostic(severity: severity, at: line, in: places, message: message)
        }
        // The plug-ins for files name them by options of their own.
        if let option, let line = places.line(of: "plugin_opt_\(option)", value: value) {
            return Diagnostic(severity: severity, at: line, in: places, message: message)
        }
        if option == nil || option == "listener", let listener, let line = places.opening(ofListener: listener) {
            return Diagnostic(severity: severity, at: line, in: places, message: message)
        }
        var diagnostic = Diagnostic(severity: severity, at: nil, in: places, message: message)
        diagnostic.option = option
        if let listener, result.configuration.listeners.indices.contains(listener), option == nil || option == "listener" {
            diagnostic.option = ListenerName.of(result.configuration.listeners[listener].endpoint)
        }
        return diagnostic
    }
}
