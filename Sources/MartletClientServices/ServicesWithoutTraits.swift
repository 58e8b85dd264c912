#if !Logging && !Metrics && !Tracing && !ServiceLifecycle
    // Without a trait there is nothing in this module.
    internal import MartletClient
#endif
