def check(model, file):
    pass
